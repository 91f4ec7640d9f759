"""A graph in an .npz file: arrays in the layout of gnn-benchmark, or a SciPy adjacency matrix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.data.convert import from_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.formats.arrays import READ_ERRORS, SCIPY_ARRAYS, npz_array_names
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import short_reason
from afgrl.errors import UserError
from afgrl.ops.sparse.layout import compact_features

CSR_PARTS = ("data", "indices", "indptr", "shape")


def load_npz(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    is_matrix = npz_array_names(path) >= SCIPY_ARRAYS
    return _load_adjacency(path, options, fitted) if is_matrix else _load_gnn_benchmark(path)


def _load_adjacency(path: Path, options: ReadOptions, fitted: Fitted) -> Dataset:
    try:
        matrix = sp.coo_array(sp.load_npz(path))
    except READ_ERRORS as error:
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
    try:
        with np.load(path, allow_pickle=False) as arrays:
            graph = from_scipy(_csr_matrix(arrays, "adj"), compact_features(_features(arrays)))
            y = _labels(arrays["labels"], graph.n) if "labels" in arrays else None
    except UserError as error:
        raise UserError(f"The file {path} contains no usable graph: {error}") from None
    except (*READ_ERRORS, TypeError) as error:
        raise UserError(f"The file {path} is damaged or has another layout: {str(error).rstrip('.')}.") from error
    return Dataset(path.stem, graph, y)


def _csr_matrix(arrays: Mapping[str, Any], prefix: str) -> sp.csr_array:
    missing = [f"{prefix}_{part}" for part in CSR_PARTS if f"{prefix}_{part}" not in arrays]
    if missing:
        raise UserError(f"it has no array{'s' * (len(missing) > 1)} {', '.join(missing)}.")
    data, indices, indptr, (n_rows, n_columns) = (arrays[f"{prefix}_{part}"] for part in CSR_PARTS)
    matrix = sp.csr_array((data, indices, indptr), shape=(int(n_rows), int(n_columns)))
    matrix.check_format(full_check=True)  # an index out of bounds would read foreign memory
    return matrix


def _features(arrays: Mapping[str, Any]) -> Any:
    if "attr_matrix" not in arrays:
        return _csr_matrix(arrays, "attr")
    matrix = arrays["attr_matrix"]
    if matrix.ndim != 2:
        raise UserError(f"attr_matrix must have shape [nodes, features], but its shape is {matrix.shape}.")
    return matrix


def _labels(labels: np.ndarray, n: int) -> np.ndarray:
    if labels.shape != (n,):
        raise UserError(f"labels has shape {labels.shape}, but the graph has {n} nodes.")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise UserError("labels must be integers from 0.")
    return labels.astype(np.int64)
