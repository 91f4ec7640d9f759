"""A graph in an .npz file: arrays in the layout of gnn-benchmark, or a SciPy adjacency matrix."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from afgrl.amounts import counted
from afgrl.data.convert import from_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.formats.arrays import SCIPY_ARRAYS, csr_matrix, npz_headers, read_npz, sparse_matrix
from afgrl.data.ingest import IngestReport
from afgrl.data.node_arrays import dataset_with_columns, is_column, label_column, node_columns
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import short_reason
from afgrl.errors import UserError
from afgrl.ops.sparse.layout import compact_features

CSR_PARTS = ("data", "indices", "indptr", "shape")
WANTED = {"attr_matrix", "labels", *(f"{prefix}_{part}" for prefix in ("adj", "attr") for part in CSR_PARTS)}
SCIPY_PARTS = SCIPY_ARRAYS | {"row", "col", "indices", "indptr", "offsets", "_is_array"}
DAMAGED = (ValueError, TypeError, KeyError, OverflowError)  # what arrays that do not fit together raise


def load_npz(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    """Further arrays with one value per node become columns, which are not features."""
    is_matrix = npz_headers(path).keys() >= SCIPY_ARRAYS
    return _load_adjacency(path, options, fitted) if is_matrix else _load_gnn_benchmark(path, options)


def _load_adjacency(path: Path, options: ReadOptions, fitted: Fitted) -> Dataset:
    arrays = read_npz(path, SCIPY_PARTS)
    try:
        matrix = sp.coo_array(sparse_matrix(arrays))
    except DAMAGED as error:
        raise UserError(f"The file {path} contains no sparse matrix or is damaged: {short_reason(error)}.") from None
    if matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"The adjacency matrix in {path} must be square, but its shape is {matrix.shape}.")
    if options.nodes:
        raise UserError("--nodes cannot be used with an adjacency matrix, which has no ids; use a table of edges.")
    report = IngestReport()
    columns = _further_columns(path, SCIPY_PARTS, matrix.shape[0], report)
    edges = pa.table({"source": matrix.row, "target": matrix.col, "weight": matrix.data.astype(np.float64)})
    nodes = pa.table({"id": np.arange(matrix.shape[0]), **columns})
    own = replace(options, id="id", knn_graph=None, columns=(*(f"{name}=ignore" for name in columns), *options.columns))
    names = TableNames(path.name, path.name)
    return dataset_from_tables(nodes, edges, own, fitted=fitted, name=path.stem, names=names, report=report)


def _load_gnn_benchmark(path: Path, options: ReadOptions) -> Dataset:
    """Adjacency ``adj_*``, features ``attr_*`` (sparse) or ``attr_matrix`` (dense), optionally ``labels``."""
    arrays = read_npz(path, WANTED)
    try:
        graph = from_scipy(_csr_matrix(arrays, "adj"), compact_features(_features(arrays)))
        label = label_column(integer_labels(arrays["labels"], graph.n)) if "labels" in arrays else {}
    except UserError as error:
        raise UserError(f"The file {path} contains no usable graph: {error}") from None
    except DAMAGED as error:
        raise UserError(f"The file {path} is damaged or has another layout: {short_reason(error)}.") from None
    report = IngestReport()
    columns = label | _further_columns(path, WANTED, graph.n, report)
    own = replace(options, label=options.label or next(iter(label), None))
    return dataset_with_columns(graph, columns, own, report, name=path.stem, where=path.name)


def _further_columns(path: Path, known: Collection[str], n: int, report: IngestReport) -> dict[str, pa.Array]:
    """Only arrays that may be columns are opened: published files contain names as pickled objects."""
    headers = {name: header for name, header in npz_headers(path).items() if name not in known}
    fitting = [name for name, header in headers.items() if header is not None and is_column(*header, n)]
    arrays = read_npz(path, fitting)
    return node_columns({name: arrays.get(name) for name in headers}, n, report, path.name)


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


def integer_labels(labels: np.ndarray, n: int) -> np.ndarray:
    """The class of each node, -1 for none."""
    if labels.shape != (n,):
        raise UserError(f"labels has shape {labels.shape}, but the graph has {counted(n, 'node')}.")
    if labels.dtype.kind not in "iu" or (n and labels.min() < -1):
        raise UserError("labels must be integers from 0, or -1 for nodes without a label.")
    return labels
