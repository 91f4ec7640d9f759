"""A graph in an .npz file: arrays in the layout of gnn-benchmark, or a SciPy adjacency matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.data.convert import from_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.formats.arrays import SCIPY_ARRAYS, csr_matrix, npz_array_names, read_npz, sparse_matrix
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import short_reason
from afgrl.errors import UserError
from afgrl.ops.sparse.layout import compact_features

CSR_PARTS = ("data", "indices", "indptr", "shape")
WANTED = {"attr_matrix", "labels", *(f"{prefix}_{part}" for prefix in ("adj", "attr") for part in CSR_PARTS)}
DAMAGED = (ValueError, TypeError, KeyError, OverflowError)  # what arrays that do not fit together raise


def load_npz(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    is_matrix = npz_array_names(path) >= SCIPY_ARRAYS
    return _load_adjacency(path, options, fitted) if is_matrix else _load_gnn_benchmark(path)


def _load_adjacency(path: Path, options: ReadOptions, fitted: Fitted) -> Dataset:
    arrays = read_npz(path)
    try:
        matrix = sp.coo_array(sparse_matrix(arrays))
    except DAMAGED as error:
        raise UserError(f"The file {path} contains no sparse matrix or is damaged: {short_reason(error)}.") from None
    if matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"The adjacency matrix in {path} must be square, but its shape is {matrix.shape}.")
    if options.nodes:
        raise UserError("--nodes cannot be used with an adjacency matrix, which has no ids; use a table of edges.")
    edges = pa.table({"source": matrix.row, "target": matrix.col, "weight": matrix.data.astype(np.float64)})
    nodes = pa.table({"id": np.arange(matrix.shape[0])})
    names = TableNames(path.name, path.name)
    return dataset_from_tables(
        nodes, edges, ReadOptions(weight=options.weight), fitted=fitted, name=path.stem, names=names
    )


def _load_gnn_benchmark(path: Path) -> Dataset:
    """Adjacency ``adj_*``, features ``attr_*`` (sparse) or ``attr_matrix`` (dense), optionally ``labels``.

    Other arrays are not opened: published files contain names as pickled objects.
    """
    arrays = read_npz(path, WANTED)
    try:
        graph = from_scipy(_csr_matrix(arrays, "adj"), compact_features(_features(arrays)))
        y = integer_labels(arrays["labels"], graph.n) if "labels" in arrays else None
    except UserError as error:
        raise UserError(f"The file {path} contains no usable graph: {error}") from None
    except DAMAGED as error:
        raise UserError(f"The file {path} is damaged or has another layout: {short_reason(error)}.") from None
    return Dataset(path.stem, graph, y)


def _csr_matrix(arrays: dict[str, np.ndarray], prefix: str) -> sp.csr_array:
    missing = [f"{prefix}_{part}" for part in CSR_PARTS if f"{prefix}_{part}" not in arrays]
    if missing:
        raise UserError(f"it has no array{'s' * (len(missing) > 1)} {', '.join(missing)}.")
    return csr_matrix(arrays, f"{prefix}_")


def _features(arrays: dict[str, np.ndarray]) -> Any:
    if "attr_matrix" not in arrays:
        return _csr_matrix(arrays, "attr")
    matrix = arrays["attr_matrix"]
    if matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
        found = f"{matrix.dtype} of shape {matrix.shape}"
        raise UserError(f"attr_matrix must be numbers of shape [nodes, features], but it is {found}.")
    return matrix


def integer_labels(labels: np.ndarray, n: int) -> np.ndarray | None:
    """The class of each node; None if no node has a label."""
    if labels.shape != (n,):
        raise UserError(f"labels has shape {labels.shape}, but the graph has {n} nodes.")
    if labels.dtype.kind not in "iu" or (n and labels.min() < -1):
        raise UserError("labels must be integers from 0, or -1 for nodes without a label.")
    present = np.unique(labels[labels >= 0])  # numbers that no node has are no classes
    return np.where(labels >= 0, np.searchsorted(present, labels), -1).astype(np.int64) if len(present) else None
