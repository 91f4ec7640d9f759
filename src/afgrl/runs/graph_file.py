"""The graph of a run as one file: its edges, their weights, and its features unless they are too large."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from afgrl.csr import csr_tensor
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.runs.readers import check, reading
from afgrl.runs.tensor_file import read_tensors, write_tensors

CSR_PARTS = ("x.indptr", "x.indices", "x.values")
CHECKED_EDGES = 1 << 24  # at once


class StoredGraph(NamedTuple):
    edge_index: Tensor  # [2, e] int64, each value a node
    edge_weight: Tensor | None  # [e] float32
    x: Tensor | None  # [n, f] float32, dense or CSR; None if the features stay in the source


def feature_arrays(x: Tensor) -> dict[str, Tensor]:
    """Features as plain arrays: dense, or the three of CSR with 32-bit columns."""
    if x.layout != torch.sparse_csr:
        return {"x": x.cpu().contiguous()}
    columns = x.col_indices().cpu().to(torch.int32)  # a table has fewer than 2³¹ columns
    return dict(zip(CSR_PARTS, (x.crow_indices().cpu().to(torch.int64), columns, x.values().cpu()), strict=True))


def mapped_features(arrays: Mapping[str, Tensor], n_features: int) -> Tensor | None:
    """The opposite, without a copy of mapped arrays except for the beginnings of rows; None if they are not there."""
    if "x.indptr" not in arrays:
        return arrays.get("x")
    indptr, indices, values = (arrays[name] for name in CSR_PARTS)
    kind = torch.int32 if len(indices) < 2**31 else torch.int64  # CSR has one type for both
    return csr_tensor(indptr.to(kind), indices.to(kind), values, (len(indptr) - 1, n_features))


def features_fingerprint(x: Tensor) -> str:
    digest = hashlib.sha256(repr(tuple(x.shape)).encode())
    for name, part in feature_arrays(x).items():
        digest.update(name.encode())
        digest.update(part.numpy().data)  # without a copy
    return digest.hexdigest()[:16]


def write_graph(file: Path, graph: Graph, features: dict[str, Tensor]) -> None:
    index_type = torch.int32 if graph.n < 2**31 else torch.int64
    tensors = {"edge_index": graph.edge_index.to(index_type), **features}
    if graph.edge_weight is not None:
        tensors["edge_weight"] = graph.edge_weight
    write_tensors(file, tensors, {"n_features": str(graph.n_features)})


def read_graph(file: Path, n: int) -> StoredGraph:
    """The graph of ``n`` nodes. Each index is checked before native code follows it: out of bounds, it would crash."""
    with reading(file):
        tensors, metadata = read_tensors(file)
        n_features = int(metadata["n_features"])
        _check_edges(tensors, n)
        features = _features(tensors, n, n_features)
        return StoredGraph(tensors["edge_index"].to(torch.int64), tensors.get("edge_weight"), features)


def check_graph(file: Path, n: int) -> None:
    """That a file is intact, before ``map_graph`` reads it without checks."""
    with reading(file):
        tensors, metadata = read_tensors(file)
        _check_edges(tensors, n)
        _check_sorted(tensors["edge_index"], n)
        _features(tensors, n, int(metadata["n_features"]))


def map_graph(file: Path, *, directed: bool, x: Tensor | None = None) -> MappedGraph:
    """The graph of a file that was checked, with features ``x`` if those are not in it."""
    with reading(file):
        tensors, metadata = read_tensors(file, verified=True)
        found = mapped_features(tensors, int(metadata["n_features"])) if x is None else x
        assert found is not None
        return MappedGraph(found, tensors["edge_index"], directed, tensors.get("edge_weight"))


def _check_edges(tensors: Mapping[str, Tensor], n: int) -> None:
    edge_index, edge_weight = tensors["edge_index"], tensors.get("edge_weight")
    _check_tensor("edge_index", edge_index, (2, None), torch.int32, torch.int64)
    _check_range("edge_index", edge_index, n)
    if edge_weight is not None:
        _check_tensor("edge_weight", edge_weight, (edge_index.shape[1],), torch.float32)


def _check_sorted(edge_index: Tensor, n: int) -> None:
    """That edges are in the order of a ``Graph``, block by block; each block begins with the last edge before it."""
    for start in range(0, edge_index.shape[1], CHECKED_EDGES):
        block = edge_index[:, max(start - 1, 0) : start + CHECKED_EDGES].to(torch.int64)
        check(bool(((block[0] * n + block[1]).diff() > 0).all()), "its array 'edge_index' is not sorted")


def _features(tensors: dict[str, Tensor], n: int, n_features: int) -> Tensor | None:
    if "x.indptr" not in tensors:
        x = tensors.get("x")
        if x is not None:
            _check_tensor("x", x, (n, n_features), torch.float32)
        return x
    indptr, indices, values = (tensors[name] for name in CSR_PARTS)
    _check_tensor("x.indptr", indptr, (n + 1,), torch.int64)
    _check_tensor("x.indices", indices, (None,), torch.int32)
    _check_tensor("x.values", values, (len(indices),), torch.float32)
    _check_range("x.indptr", indptr, len(indices) + 1)  # before the differences, which could overflow
    ordered = bool((indptr.diff() >= 0).all()) and int(indptr[0]) == 0 and int(indptr[-1]) == len(indices)
    check(ordered, "its array 'x.indptr' does not divide 'x.indices' into rows")
    _check_range("x.indices", indices, n_features)
    increasing = indices.diff() > 0
    starts = indptr[(indptr > 0) & (indptr < len(indices))]
    increasing[starts - 1] = True  # between two rows, the column may decrease
    check(bool(increasing.all()), "its array 'x.indices' is not sorted within rows")
    return csr_tensor(indptr, indices.to(torch.int64), values, (n, n_features))


def _check_tensor(name: str, tensor: Tensor, shape: tuple[int | None, ...], *dtypes: torch.dtype) -> None:
    fits = tensor.ndim == len(shape) and all(
        size in (None, found) for size, found in zip(shape, tensor.shape, strict=True)
    )
    check(fits, f"its array {name!r} has the shape {tuple(tensor.shape)}")
    check(tensor.dtype in dtypes, f"its array {name!r} has the type {tensor.dtype}")


def _check_range(name: str, index: Tensor, end: int) -> None:
    if index.numel():
        low, high = (int(value) for value in index.aminmax())
        check(low >= 0 and high < end, f"its array {name!r} has values from {low} to {high}, not 0 to {end - 1}")
