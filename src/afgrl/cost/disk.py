"""Disk space of a run and of reading large tables, and the memory that reading them takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from afgrl.amounts import byte_size
from afgrl.config import Settings
from afgrl.cost.limits import FLOAT, NARROWEST, model_bytes
from afgrl.cost.machine import free_disk, free_memory
from afgrl.data import Dataset
from afgrl.data.benchmarks.cache import cache_folder
from afgrl.data.files import large_table_bytes, source_tables
from afgrl.data.tables.numbering import ENGINE_MEMORY
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.read import table_rows
from afgrl.data.unpacking import home_expanded
from afgrl.errors import UserError
from afgrl.methods import Method
from afgrl.runs.dataset_files import MAX_FEATURE_BYTES
from afgrl.runs.graph_file import feature_arrays

GIB = 1 << 30
# Measured by `python -m benchmarks.large_tables` (results/large-tables.md), rounded up.
TEMPORARY = 6  # times the size of the tables: cells as text, with their types, and twice the features
ROW_MEMORY = 120  # bytes of a row: an edge in both directions while it is sorted, or an id as text
HELD = 24  # bytes of a row while DuckDB works: the positions of both ends and a weight, or an id


@dataclass(frozen=True)
class ReadingNeeds:
    """What it takes to read tables that are larger than ``LARGE_BYTES``."""

    memory_bytes: int
    disk_bytes: int


def reading_needs(source: str | Path, options: ReadOptions = ReadOptions()) -> ReadingNeeds | None:
    """None for a source that is no large table."""
    files = source_tables(home_expanded(source), options)
    size = large_table_bytes(*files)
    if not size:
        return None
    rows = sum(table_rows(file) for file in files)
    # DuckDB has finished when the graph is built.
    memory = max(min(ENGINE_MEMORY, size) + HELD * rows, ROW_MEMORY * rows)
    return ReadingNeeds(memory, TEMPORARY * size)


def check_reading(source: str | Path, options: ReadOptions = ReadOptions()) -> ReadingNeeds | None:
    """The needs, or ``UserError`` if there is less memory or disk space."""
    needs = reading_needs(source, options)
    if needs is None:
        return None
    memory, disk = free_memory("cpu"), free_disk(cache_folder())
    if needs.memory_bytes > memory:
        raise UserError(
            f"Reading {str(source)!r} needs about {byte_size(needs.memory_bytes)} of memory, and "
            f"{byte_size(memory)} are free; use a smaller part of the edges."
        )
    if needs.disk_bytes > disk:
        raise UserError(
            f"Reading {str(source)!r} needs about {byte_size(needs.disk_bytes)} for temporary files, and "
            f"{byte_size(disk)} are free in {cache_folder()}; set AFGRL_CACHE to a folder on a larger disk, or use "
            "fewer columns."
        )
    return needs


def run_disk(method: type[Method], settings: Settings, dataset: Dataset) -> int:
    """About the bytes of a finished run: the dataset, the vectors and the model."""
    return int(_dataset_disk(dataset, all_features=False) + _trained_disk(method, settings, dataset, checkpoints=0))


def most_run_disk(method: type[Method], settings: Settings, dataset: Dataset, *, all_features: bool = False) -> int:
    """The most that a run takes: before its checkpoint is removed, or while a new one replaces the last.

    Features beyond 2 GiB stay in the source, but with ``all_features`` the run has them too while it is trained.
    """
    return int(_dataset_disk(dataset, all_features) + _trained_disk(method, settings, dataset, checkpoints=2))


def _trained_disk(method: type[Method], settings: Settings, dataset: Dataset, checkpoints: int) -> float:
    """A checkpoint has the model and the two moments of each trained parameter."""
    learned, fixed = model_bytes(method, settings, dataset.graph)
    vectors = FLOAT * dataset.graph.n * getattr(settings, "n_components", 0)
    return vectors + learned + fixed + checkpoints * (3 * learned + fixed)


def check_run_disk(
    method: type[Method], settings: Settings, dataset: Dataset, folder: Path, *, all_features: bool = False
) -> None:
    """Raise ``UserError`` if the disk of the run folder has less space than the run needs."""
    free, needed = free_disk(folder), most_run_disk(method, settings, dataset, all_features=all_features)
    if needed <= free:
        return
    fitting = _narrower(method, settings, dataset, free, all_features)
    advice = "choose a folder on a larger disk with --out"
    if fitting:
        advice = f"--set n_components={fitting} would fit, or {advice}"
    raise UserError(
        f"The run needs about {byte_size(needed)} on the disk of {str(folder)!r}, and {byte_size(free)} are "
        f"free; {advice}."
    )


def _narrower(method: type[Method], settings: Settings, dataset: Dataset, free: int, all_features: bool) -> int | None:
    width = getattr(settings, "n_components", 0) // 2
    while width >= NARROWEST:
        narrower = settings.model_copy(update={"n_components": width})
        if most_run_disk(method, narrower, dataset, all_features=all_features) <= free:
            return int(width)
        width //= 2
    return None


def _dataset_disk(dataset: Dataset, all_features: bool) -> int:
    graph = dataset.graph
    features = sum(part.numel() * part.element_size() for part in feature_arrays(graph.x).values())
    edges = graph.edge_index.shape[1] * (2 * FLOAT + (FLOAT if graph.edge_weight is not None else 0))
    columns = dataset.ingested.columns.nbytes if dataset.ingested else 8 * graph.n
    return edges + int(columns) + (features if all_features or features <= MAX_FEATURE_BYTES else 0)
