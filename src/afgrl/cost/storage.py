"""Whether tables with a row per node are in memory or in temporary files, which need disk space instead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from afgrl.amounts import byte_size, counted
from afgrl.cost.machine import free_disk, free_memory
from afgrl.cost.memory import needed_memory, table_disk
from afgrl.cost.workload import Workload
from afgrl.data.benchmarks.cache import cache_folder
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_settings import PositiveSettings

GIB = 1 << 30
MEMORY_SHARE = 0.8  # of the memory that tables in memory may need; judgment: files are slower, a full memory is fatal
# Tables of float32 [n, width] at the peak of evaluation, clustering and the quality panel: those of a million nodes
# with 128 columns took 7.1, 3.2 and 6.7 GiB (results/after-training.md). At most this many of them are in files.
TABLES_AFTER_TRAINING, TABLES_IN_FILES = 14, 9


@dataclass(frozen=True)
class StoragePlan:
    """Where tables are, and what training then needs."""

    memory_bytes: int  # in addition to what is in use
    disk_bytes: int = 0  # of temporary files
    folder: Path | None = None  # of these files; None: all tables are in memory


def storage_plan(settings: PositiveSettings, load: Workload, memory: int, *, may_use_files: bool = True) -> StoragePlan:
    """In memory if that takes at most 80 % of ``memory``; else in files, if there is space for them."""
    in_memory = StoragePlan(needed_memory(settings, load))
    in_files = plan_with_files(settings, load) if may_use_files else None
    if in_files is None or in_memory.memory_bytes <= MEMORY_SHARE * memory:
        return in_memory
    has_space = in_files.folder is not None and in_files.disk_bytes <= free_disk(in_files.folder)
    return in_files if has_space and in_files.memory_bytes < in_memory.memory_bytes else in_memory


def plan_with_files(settings: PositiveSettings, load: Workload) -> StoragePlan | None:
    """None if tables cannot be in files: in full batches, and on a GPU."""
    if load.device != "cpu" or not isinstance(settings, NodeEmbedderSettings):
        return None
    memory = needed_memory(settings, load, in_files=True)
    return StoragePlan(memory, table_disk(settings, load), table_files())


def table_files() -> Path:
    """The folder of temporary files; AFGRL_CACHE chooses the disk."""
    return cache_folder() / "spill"


def folder_after_training(graph: Graph, width: int, device: torch.device) -> Path | None:
    """A folder, made now, for tables of what needs no training, if they do not fit into memory. Their rows are vectors
    of this width or dense features."""
    table = 4 * graph.n * max(width, 0 if graph.x.layout == torch.sparse_csr else graph.n_features)
    needed, free, disk = TABLES_AFTER_TRAINING * table, free_memory("cpu"), TABLES_IN_FILES * table
    folder = table_files()
    if device.type != "cpu" or needed <= MEMORY_SHARE * free:
        return None
    if disk <= free_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    if needed <= free:
        return None
    raise UserError(
        f"The tables of {counted(graph.n, 'node')} need about {byte_size(needed)} of memory, and {byte_size(free)} are "
        f"free; in files, they need {byte_size(disk)} of disk, and {byte_size(free_disk(folder))} are free in "
        f"{folder}: set AFGRL_CACHE to a folder on a larger disk."
    )
