"""A graph in a folder of arrays: features.npy, edges.npy and optionally ids.npy, labels.npy and weights.npy.

Large features of float32 stay in their file, which is mapped into memory; those of another type are converted into a
temporary file.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.formats.arrays import MAPPED_BYTES, is_plain, load_features, read_npy
from afgrl.data.formats.npz import integer_labels
from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill, spilling
from afgrl.data.tables.edges import report_nodes_and_edges
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.read import TABLE_SUFFIXES
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import file_suffix
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.sparse.layout import compact_features

FEATURES, EDGES, IDS, LABELS, WEIGHTS = (f"{name}.npy" for name in ("features", "edges", "ids", "labels", "weights"))


def is_array_folder(folder: Path) -> bool:
    """Whether a folder has arrays of edges and features, and no tables."""
    if not folder.is_dir() or not all((folder / name).is_file() for name in (FEATURES, EDGES)):
        return False
    return not any(file_suffix(file) in TABLE_SUFFIXES for file in folder.iterdir() if not file.name.startswith("."))


def load_array_folder(folder: Path, options: ReadOptions) -> Dataset:
    if options.knn_graph is not None:
        raise UserError(f"--knn-graph cannot be used with {folder}, which has edges ({EDGES}).")
    found = {name: folder / name for name in (IDS, LABELS, WEIGHTS) if (folder / name).is_file()}
    report = IngestReport()
    report.info(f"Files read: {', '.join([FEATURES, EDGES, *found])}.")
    edges = _edges(folder / EDGES)
    weight: Any = read_npy(found[WEIGHTS]) if WEIGHTS in found and options.weight != "none" else None
    ids: Any = read_npy(found[IDS]) if IDS in found else None
    graph = Graph(_features(folder / FEATURES), edges, ids, edge_weight=weight)
    names = TableNames(FEATURES, EDGES)
    report_nodes_and_edges(pa.nulls(graph.n), graph.n, edges, report, names, weighted=weight is not None)
    columns = pa.table({"id": pa.array(graph.ids)})
    y, classes = None, None
    if LABELS in found and options.label != "none":
        y, classes = _labels(found[LABELS], graph.n, report)
    if y is not None:
        columns = columns.append_column("label", pa.array(classes).take(pa.array(y, mask=y < 0)))
    ingested = Ingested(
        columns, graph.n, None if y is None else "label", classes, report, "id" if IDS in found else None
    )
    return Dataset(folder.stem or folder.name, graph, y, ingested=ingested)


def stored_features(folder: Path) -> np.ndarray | None:
    """The mapped file whose values the features of the graph are; None if reading the folder changes or copies them."""
    if not is_array_folder(folder) or not _is_large(folder / FEATURES):
        return None
    features = read_npy(folder / FEATURES)
    return features if features.ndim == 2 and is_plain(features) else None


def _is_large(path: Path) -> bool:
    return path.stat().st_size > MAPPED_BYTES


def _features(path: Path) -> Any:
    large = _is_large(path)
    temporary: AbstractContextManager[Spill | None] = spilling() if large else nullcontext()
    with temporary as spill:
        features = load_features(path, spill)
    return features if large else compact_features(features)  # a copy in memory would defeat the mapped file


def _edges(path: Path) -> Any:
    """[2, e], also from [e, 2]."""
    edges = read_npy(path)
    if edges.ndim == 2 and edges.shape[0] != 2 and edges.shape[1] == 2:
        return edges.T
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise UserError(f"The edges in {path} must have shape [e, 2] or [2, e], not {edges.shape}.")
    return edges


def _labels(path: Path, n: int, report: IngestReport) -> tuple[np.ndarray | None, list[str] | None]:
    """The class of each node, -1 for nodes without a label, and the names of the classes; None if all are -1."""
    labels = read_npy(path)
    if labels.dtype.kind == "U" and labels.shape == (n,):
        names, places = np.unique(labels, return_inverse=True)
        return places.astype(np.int64), names.tolist()
    try:
        classes = integer_labels(labels, n)
    except UserError as error:
        raise UserError(f"The labels in {path} cannot be used: {error}") from None
    present = np.unique(classes[classes >= 0])  # numbers that no node has are no classes
    if len(present) == 0:
        report.info(f"No node has a label in {path.name}.")
        return None, None
    y = np.where(classes >= 0, np.searchsorted(present, classes), -1).astype(np.int64)
    return y, [str(value) for value in present]
