"""The map of a fitted estimator: the 2-D projection of its vectors as a picture for notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.amounts import counted
from afgrl.data.dataset import Dataset
from afgrl.errors import unknown
from afgrl.graph import as_text
from afgrl.notebook import NodePlot, checked_color, plot_points

MAX_POINTS = 50_000  # a picture of more would be slow; a random sample shows the same groups


def plot_embedding(points: np.ndarray, dataset: Dataset, ids: np.ndarray, clusters: Any, color: Any) -> NodePlot:
    """The points [n, 2] of the nodes of a dataset. ``color`` is "cluster", "label", a column, or a value per node."""
    shown = [
        text if text == name else f"{name} ({text})"
        for name, text in zip(dataset.node_names, as_text(ids), strict=True)
    ]
    values, what = _color_values(dataset, clusters, color)
    rows, title = np.arange(len(ids)), counted(len(ids), "node")
    if len(rows) > MAX_POINTS:
        rows = np.sort(np.random.default_rng(0).permutation(len(ids))[:MAX_POINTS])
        title = f"A random sample of {MAX_POINTS:,} of {len(ids):,} nodes"
    return plot_points(
        points[rows],
        ids[rows],
        title=title + (f", colored by {what}" if what else ""),
        names=np.asarray(shown, dtype=object)[rows].tolist(),
        color=None if values is None else values[rows],
    )


def _color_values(dataset: Dataset, clusters: np.ndarray | None, color: Any) -> tuple[np.ndarray | None, str]:
    """A value for each node, and what the values are."""
    if color is None:
        if clusters is None and dataset.y is None:
            return None, ""
        color = "label" if clusters is None else "cluster"
    if not isinstance(color, str):
        return checked_color(color, dataset.graph.n), "the given values"
    if color == "cluster" and clusters is not None:
        return clusters, "cluster"
    if color == "label" and dataset.y is not None:
        return _label_names(dataset, dataset.y), "label"
    columns = dataset.ingested.columns.drop_columns(["id"]) if dataset.ingested else pa.table({})
    if color in columns.column_names:
        return _column_values(columns[color]), color
    possible = [*columns.column_names, "cluster", *(["label"] if dataset.y is not None else [])]
    raise unknown("color", color, possible)


def _column_values(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers as floats, so that they are a gradient; other values as they are."""
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.float64()).to_numpy()
    return np.array([None if value is None else str(value) for value in column.to_pylist()], dtype=object)


def _label_names(dataset: Dataset, y: np.ndarray) -> np.ndarray:
    classes = dataset.ingested.classes if dataset.ingested and dataset.ingested.classes else range(dataset.n_classes)
    return np.array([*(str(name) for name in classes), None], dtype=object)[y]  # -1, no label, is the last entry
