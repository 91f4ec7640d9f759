"""A benchmark by name → Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from afgrl.data.benchmarks.cache import cached
from afgrl.data.benchmarks.pyg_reader import read_raw_files
from afgrl.data.benchmarks.registry import BENCHMARKS, Benchmark, Counts
from afgrl.data.dataset import Dataset
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, Splits
from afgrl.errors import UserError
from afgrl.graph import Graph


def load_benchmark(name: str, *, data_dir: str | Path | None = None, directed: bool | None = None) -> Dataset:
    """A benchmark with its canonical splits, if it has any; ``directed=None``: as in the paper."""
    benchmark = BENCHMARKS[name]
    if directed and not benchmark.directed:
        raise UserError(f"The dataset {name!r} is undirected; only 'wikics' can be loaded as directed.")
    raw = benchmark.raw.locate(data_dir)
    tensors = cached(name, raw, partial(read_raw_files, benchmark, raw))
    check_counts(benchmark, tensors, raw)
    directed = benchmark.directed if directed is None else directed
    graph = Graph(tensors["x"], tensors["edge_index"], directed=directed)
    return Dataset(name, graph, tensors["y"].numpy(), _canonical_splits(tensors))


def check_counts(benchmark: Benchmark, tensors: dict[str, Tensor], raw: Sequence[Path]) -> None:
    """Refuse files that do not contain the graph used in the paper."""
    x, edge_index, y = (tensors[key] for key in ("x", "edge_index", "y"))
    low, high = edge_index.aminmax(dim=0)
    n_edges = torch.unique(low * len(x) + high).numel()
    found = Counts(x.shape[0], n_edges, x.shape[1], y.unique().numel())
    counts = zip(fields(Counts), astuple(found), astuple(benchmark.counts), strict=True)
    wrong = [
        f"{given:,} {field.name} instead of {expected:,}" for field, given, expected in counts if given != expected
    ]
    if wrong:
        raise UserError(f"{benchmark.title} in {raw[0].parent} is not the paper's graph: {', '.join(wrong)}.")


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
