"""Arrays with one value per node, as columns of the nodes with their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.tables.assemble import stored_columns
from afgrl.data.tables.labels import encode_labels
from afgrl.data.tables.nodes import read_nodes
from afgrl.data.tables.options import ReadOptions
from afgrl.graph import Graph

COLUMN_KINDS = "iufbUSM"  # NumPy's letters for integers, floats, booleans, text, bytes and dates
DATE_UNITS = ("D", "s", "ms", "us", "ns")  # those that Arrow has
MANY_NAMES = 20  # in a message


def is_column(shape: tuple[int, ...], dtype: np.dtype[Any], n: int) -> bool:
    """Whether an array has one number, text, boolean or date for each of ``n`` nodes."""
    return shape == (n,) and dtype.kind in COLUMN_KINDS


def node_columns(arrays: Mapping[str, Any], n: int, report: IngestReport, where: str) -> dict[str, pa.Array]:
    """The columns in ``arrays``: NumPy arrays, tensors or lists. The report names them, and the others as ignored."""
    columns, ignored = dict[str, pa.Array](), list[str]()
    for name, values in arrays.items():
        column = _column(values, n)
        if column is None:
            ignored.append(name)
        else:
            columns["id (column)" if name == "id" else name] = column
    if columns:
        report.info(f"Columns of the nodes in {where}, not used as features: {first_few(list(columns), MANY_NAMES)}.")
    if ignored:
        report.info(f"Ignored in {where}, not one value per node: {first_few(ignored, MANY_NAMES)}.")
    return columns


def label_column(labels: np.ndarray) -> dict[str, pa.Array]:
    """Classes of the nodes as a column, in which -1 is a missing label; none if all are missing."""
    missing = labels < 0
    return {} if missing.all() else {"label": pa.array(labels, mask=missing)}


def dataset_with_columns(
    graph: Graph, columns: Mapping[str, pa.Array], options: ReadOptions, report: IngestReport, *, name: str, where: str
) -> Dataset:
    """A graph that has its features, with columns in the order of its nodes. One of them may be the label."""
    table = pa.table({"id": pa.array(graph.ids), **columns})
    nodes = read_nodes(table, "id", None, options, report, where)
    y, classes = None, None
    if nodes.label is not None:
        y, classes = encode_labels(nodes.columns[nodes.label], nodes.label, report, where)
    stored = stored_columns(graph.ids, nodes.columns, nodes.label, options)
    ingested = Ingested(stored, graph.n, nodes.label, classes, report, id_column="id", name_column=nodes.name)
    return Dataset(name, graph, y, ingested=ingested)


def _column(values: Any, n: int) -> pa.Array | None:
    try:
        array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
        if not is_column(array.shape, array.dtype, n):
            return None
        return pa.array(_plain(array), from_pandas=True)  # NaN and NaT are missing values
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError):
        return None  # lists of several types, tensors that NumPy does not have, dates out of range


def _plain(array: np.ndarray) -> np.ndarray:
    """As a type that Arrow has."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind == "f":
        return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)
    if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in DATE_UNITS:
        days = np.datetime_data(array.dtype)[0] in ("Y", "M", "W")
        return array.astype("datetime64[D]" if days else "datetime64[s]")
    return array.astype(array.dtype.newbyteorder("="), copy=False)
