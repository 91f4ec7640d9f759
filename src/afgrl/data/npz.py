"""A graph from an .npz file in the array layout of gnn-benchmark."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from afgrl.data.dataset import Dataset
from afgrl.data.features import compact
from afgrl.errors import UserError
from afgrl.graph import Graph

PARTS = ("data", "indices", "indptr", "shape")


def load_npz(path: str | Path) -> Dataset:
    """Adjacency ``adj_*``, features ``attr_*`` (sparse) or ``attr_matrix`` (dense), ``labels`` if any.

    Other arrays are never opened: published files hold names as pickled objects.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is a folder, not an .npz file." if path.is_dir() else f"There is no file {path}.")
    if not zipfile.is_zipfile(path):
        raise UserError(f"The file {path} is no .npz file, or it is truncated.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            adjacency, features = _sparse(arrays, "adj"), _features(arrays)
            graph = Graph.from_scipy(adjacency, compact(features))
            y = _labels(arrays["labels"], graph.n) if "labels" in arrays else None
    except UserError as error:
        raise UserError(f"The file {path} holds no graph we can use: {error}") from None
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"The file {path} is damaged or of another layout: {str(error).rstrip('.')}.") from error
    return Dataset(path.stem, graph, y)


def _sparse(arrays: Mapping[str, Any], prefix: str) -> sp.csr_array:
    missing = [f"{prefix}_{part}" for part in PARTS if f"{prefix}_{part}" not in arrays]
    if missing:
        raise UserError(f"it lacks the array{'s' * (len(missing) > 1)} {', '.join(missing)}.")
    data, indices, indptr, (rows, columns) = (arrays[f"{prefix}_{part}"] for part in PARTS)
    matrix = sp.csr_array((data, indices, indptr), shape=(int(rows), int(columns)))
    matrix.check_format(full_check=True)  # or an index out of bounds is read from foreign memory
    return matrix


def _features(arrays: Mapping[str, Any]) -> Any:
    if "attr_matrix" not in arrays:
        return _sparse(arrays, "attr")
    matrix = arrays["attr_matrix"]
    if matrix.ndim != 2:
        raise UserError(f"its attr_matrix must be a table [nodes, features], but its shape is {matrix.shape}.")
    return matrix


def _labels(labels: np.ndarray, n: int) -> np.ndarray:
    if labels.shape != (n,):
        raise UserError(f"its labels have shape {labels.shape}, but there are {n} nodes.")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise UserError("its labels must be whole numbers from 0.")
    return labels.astype(np.int64)
