"""The eight benchmark graphs, read by PyG's dataset classes."""

from __future__ import annotations

import contextlib
import io
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl.data.cache import cached
from afgrl.data.dataset import Dataset
from afgrl.data.features import compact
from afgrl.data.raw import RawFiles
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, Splits
from afgrl.errors import UserError
from afgrl.graph import Graph


@dataclass(frozen=True)
class Counts:
    """The size of a graph as tables of papers give it."""

    nodes: int
    edges: int  # an undirected edge once
    features: int
    classes: int


@dataclass(frozen=True)
class Benchmark:
    """One row of the table below."""

    title: str
    pyg_class: str
    raw: RawFiles
    counts: Counts
    directed: bool = False  # in the paper


GNN_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
WIKICS = "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset"


def _npz(folder: str, name: str) -> RawFiles:
    return RawFiles(folder, (name,), GNN_BENCHMARK)


def _planetoid(folder: str) -> RawFiles:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return RawFiles(folder, tuple(f"ind.{folder.lower()}.{part}" for part in parts), PLANETOID)


BENCHMARKS = {
    "wikics": Benchmark(
        "WikiCS",
        "WikiCS",
        RawFiles("WikiCS", ("data.json",), WIKICS),
        Counts(11701, 216123, 300, 10),  # of these edges 520 are self-loops, which our Graph drops
        directed=True,
    ),
    "computers": Benchmark(
        "Amazon Computers",
        "Amazon",
        _npz("Computers", "amazon_electronics_computers.npz"),
        Counts(13752, 245861, 767, 10),
    ),
    "photo": Benchmark(
        "Amazon Photo",
        "Amazon",
        _npz("Photo", "amazon_electronics_photo.npz"),
        Counts(7650, 119081, 745, 8),
    ),
    "cs": Benchmark("Coauthor CS", "Coauthor", _npz("CS", "ms_academic_cs.npz"), Counts(18333, 81894, 6805, 15)),
    "physics": Benchmark(
        "Coauthor Physics", "Coauthor", _npz("Physics", "ms_academic_phy.npz"), Counts(34493, 247962, 8415, 5)
    ),
    "cora": Benchmark("Cora", "Planetoid", _planetoid("Cora"), Counts(2708, 5278, 1433, 7)),
    "citeseer": Benchmark("CiteSeer", "Planetoid", _planetoid("CiteSeer"), Counts(3327, 4552, 3703, 6)),
    "pubmed": Benchmark("PubMed", "Planetoid", _planetoid("PubMed"), Counts(19717, 44324, 500, 3)),
}


def load_benchmark(name: str, *, data_dir: str | Path | None = None, directed: bool | None = None) -> Dataset:
    """A benchmark with its canonical splits where it has them; ``directed=None`` is as in the paper."""
    benchmark = BENCHMARKS[name]
    if directed and not benchmark.directed:
        raise UserError(f"The dataset {name!r} is undirected; only 'wikics' can be had directed.")
    raw = benchmark.raw.locate(data_dir)
    tensors = cached(name, raw, partial(_process, benchmark, raw))
    check_counts(benchmark, tensors, raw)
    graph = Graph(
        tensors["x"],
        tensors["edge_index"],
        directed=benchmark.directed if directed is None else directed,
    )
    return Dataset(name, graph, tensors["y"].numpy(), _canonical_splits(tensors))


def check_counts(benchmark: Benchmark, tensors: dict[str, Tensor], raw: Sequence[Path]) -> None:
    """Refuse files that are not the graph the paper used."""
    x, edge_index, y = (tensors[key] for key in ("x", "edge_index", "y"))
    low, high = edge_index.aminmax(dim=0)
    n_edges = torch.unique(low * len(x) + high).numel()
    found = Counts(x.shape[0], n_edges, x.shape[1], y.unique().numel())
    pairs = zip(fields(Counts), astuple(found), astuple(benchmark.counts), strict=True)
    wrong = [f"{given:,} {field.name} instead of {meant:,}" for field, given, meant in pairs if given != meant]
    if wrong:
        raise UserError(f"{benchmark.title} in {raw[0].parent} is not the paper's graph: {', '.join(wrong)}.")


def _process(benchmark: Benchmark, raw: Sequence[Path], scratch: Path) -> dict[str, Tensor]:
    """Let PyG read the raw files in a folder it may write to, since theirs may be read-only."""
    for source, link in zip(raw, benchmark.raw.under(scratch), strict=True):
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(source.absolute())
        except OSError:  # Windows without the privilege, some network disks
            shutil.copyfile(source, link)
    try:
        data = _read_with_pyg(benchmark, scratch)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # a damaged file shows as whatever its reader stumbles over
        raise UserError(
            f"{benchmark.title} cannot be read from {_culprit(benchmark, raw)} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}); "
            f"replace it with the file of {benchmark.raw.url}, or delete it."
        ) from error
    kept = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
    return {key: data[key] for key in kept if key in data}


def _read_with_pyg(benchmark: Benchmark, root: Path) -> Any:
    folder = benchmark.raw.folder
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # "Processing...", "Done!"
        warnings.simplefilter("ignore")
        import torch_geometric.datasets

        kind = getattr(torch_geometric.datasets, benchmark.pyg_class)
        if benchmark.directed:  # WikiCS knows one graph only, so it takes no name and adds no folder
            return kind(str(root / folder), pre_transform=_compact, is_undirected=False)[0]
        return kind(str(root), folder, pre_transform=_compact)[0]


def _compact(data: Any) -> Any:
    data.x = compact(data.x)  # before PyG writes it: Physics is 1.1 GB dense
    return data


def _culprit(benchmark: Benchmark, raw: Sequence[Path]) -> Path:
    """The file that cannot be read; PyG does not say which of Planetoid's eight it is."""
    if len(raw) == 1:
        return raw[0]
    from torch_geometric.io.planetoid import read_file

    folder = benchmark.raw.folder
    for path in raw:
        try:
            read_file(str(path.parent), folder, path.name.split(".", 2)[2])
        except Exception:
            return path
    return raw[0].parent


def _canonical_splits(tensors: dict[str, Tensor]) -> Splits | None:
    if "test_mask" not in tensors:
        return None
    train, validation, test = (
        tensors[f"{part}_mask"].reshape(len(tensors["y"]), -1).T.numpy() for part in ("train", "val", "test")
    )
    roles = np.full(train.shape, UNUSED, dtype=np.uint8)
    for role, mask in ((TEST, test), (VALIDATION, validation), (TRAIN, train)):
        roles[np.broadcast_to(mask, roles.shape)] = role
    return Splits(f"{len(roles)} canonical", roles)
