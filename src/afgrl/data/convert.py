"""Graphs from the objects of other libraries: PyG, SciPy, pandas, NetworkX."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.amounts import counted
from afgrl.data.dataset import Dataset
from afgrl.data.formats.pyg_files import WEIGHTS, weight_attribute
from afgrl.data.frames import check_frames, dataset_from_frames
from afgrl.data.ingest import IngestReport
from afgrl.data.networkx_tables import dataset_from_networkx, report_ignored
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.features import nearest_neighbor_edges
from afgrl.data.tables.options import ReadOptions, column_assignments
from afgrl.errors import UserError
from afgrl.graph import Graph

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data


def as_graph(source: Any, *, like: Graph | Fitted = None) -> Graph:
    """A graph from whatever a user is likely to have: Graph, Dataset, PyG ``Data``, (adjacency, features), (nodes,
    edges) as DataFrames, NetworkX. ``like`` is as in ``from_pandas``."""
    if isinstance(source, Graph):
        return source
    if isinstance(source, Dataset):
        return source.graph
    if isinstance(source, (tuple, list)) and len(source) == 2:
        frames = hasattr(source[0], "columns")
        return from_pandas(*source, like=like) if frames else from_scipy(*source)
    if hasattr(source, "edge_index") and hasattr(source, "x"):
        return from_pyg(source)
    if hasattr(source, "adj") and hasattr(source, "nodes"):
        return from_networkx(source, like=like)
    check_frames(source)
    raise UserError(
        f"An object of type {type(source).__name__} is not a graph; pass a Graph, a PyG Data, a pair (adjacency, "
        "features) or (nodes, edges), or a NetworkX graph."
    )


def from_pyg(data: Data, *, ids: Any = None, directed: bool = False) -> Graph:
    """From a PyG ``Data`` with ``x``, ``edge_index`` and optionally ``edge_weight``, or ``edge_attr`` with one column;
    labels and masks are ignored."""
    report = IngestReport()
    graph = graph_of_pyg(data, report, ids=ids, directed=directed)
    _warn(report)
    return graph


def graph_of_pyg(
    data: Data, report: IngestReport, *, ids: Any = None, directed: bool = False, weighted: bool = True
) -> Graph:
    for name in ("x", "edge_index"):
        if getattr(data, name, None) is None:
            raise UserError(f"The PyG Data has no {name!r}; it needs 'x' and 'edge_index'.")
    stored: dict[str, Any] = {name: getattr(data, name, None) for name in WEIGHTS}
    n_edges = (np.shape(data.edge_index) or (0,))[-1]
    holder = weight_attribute(stored, n_edges, report, "the PyG Data") if weighted else None
    weight = stored["edge_attr"].reshape(-1) if holder == "edge_attr" else stored["edge_weight"]
    return Graph(data.x, data.edge_index, ids, directed, weight if weighted else None)


def from_scipy(adjacency: Any, features: Any, *, ids: Any = None, directed: bool = False) -> Graph:
    """From a square (sparse) matrix whose non-zeros are edge weights, and an [n, f] (sparse) feature matrix."""
    matrix = sp.coo_array(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"The adjacency must be square, but its shape is {matrix.shape}.")
    n_rows = np.shape(features)[0] if np.ndim(features) else 0
    if n_rows != matrix.shape[0]:
        raise UserError(
            f"The adjacency has {counted(matrix.shape[0], 'node')} but the features have {counted(n_rows, 'row')}."
        )
    matrix.eliminate_zeros()
    edge_index = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    return Graph(features, edge_index, ids, directed, torch.from_numpy(matrix.data.astype(np.float32)))


def from_pandas(
    nodes: pd.DataFrame, edges: pd.DataFrame, *, id: str | None = None, source: str | None = None,
    target: str | None = None, label: str | None = None, weight: str | None = None,
    columns: dict[str, str] | None = None, text_model: str | None = None, na_values: Sequence[str] = (),
    keep_default_na: bool = True, like: Graph | Fitted = None,
) -> Graph:  # fmt: skip
    """From tables of nodes and edges, read as `afgrl fit` reads files: column roles that are not given are guessed,
    numbers are standardized, categories are one-hot encoded, text becomes TF-IDF. A label column is ignored.

    ``columns`` sets column types: ``{"zip": "category", "remarks": "ignore"}``. ``text_model`` is the folder of a
    sentence-transformers model, which embeds text instead of TF-IDF. If no column identifies the nodes, the index of
    ``nodes`` does; ``id="none"`` numbers the rows. ``na_values`` and ``keep_default_na`` say which words mean a missing
    value, as in pandas. ``like`` is an earlier graph made from tables, or its ``table_encoder``: its means, categories
    and words are used again. Fixes and warnings of the ingest report become Python warnings.
    """
    options = ReadOptions(
        id=id, source=source, target=target, label=label, weight=weight, columns=column_assignments(columns),
        text_model=text_model, na_values=tuple(na_values), keep_default_na=keep_default_na,
    )  # fmt: skip
    return with_warnings(dataset_from_frames(nodes, edges, options, _table_encoder_of(like)))


def knn_graph(
    points: Any, n_neighbors: int = 15, *, ids: Any = None, id: str | None = None, label: str | None = None,
    columns: dict[str, str] | None = None, like: Graph | Fitted = None,
) -> Graph:  # fmt: skip
    """A graph of points without edges: each is linked to its nearest neighbors by cosine similarity of features, as by
    ``--knn-graph``. ``points`` is an [n, f] (sparse) matrix, with ``ids``, or a DataFrame, which is read as by
    ``from_pandas``."""
    if hasattr(points, "columns"):
        types = tuple(f"{name}={column_type}" for name, column_type in (columns or {}).items())
        options = ReadOptions(id=id, label=label, columns=types, knn_graph=n_neighbors)
        return with_warnings(dataset_from_frames(points, None, options, _table_encoder_of(like)))
    return Graph(points, torch.from_numpy(nearest_neighbor_edges(points, n_neighbors, IngestReport())), ids)


def from_networkx(
    graph: nx.Graph, *, features: str | None = None, weight: str = "weight", directed: bool = False,
    like: Graph | Fitted = None,
) -> Graph:  # fmt: skip
    """From a NetworkX graph whose nodes have a feature vector (or a number) in the attribute ``features``, by default
    ``x``; edges may have an attribute ``weight``, which defaults to 1 where only some edges have it.

    If no node has an ``x``, the other attributes become features like columns of a table (``from_pandas``, which also
    explains ``like``); nodes without any attributes get structural features.
    """
    names = list(graph.nodes)
    if features is None and names and not directed and not any("x" in graph.nodes[name] for name in names):
        return with_warnings(dataset_from_networkx(graph, weight, _table_encoder_of(like)))
    report = IngestReport()
    built = graph_of_vectors(graph, features or "x", weight, report, directed=directed)
    _warn(report)
    return built


def graph_of_vectors(
    graph: nx.Graph, features: str, weight: str, report: IngestReport, *, directed: bool = False
) -> Graph:
    names = list(graph.nodes)
    position = {name: i for i, name in enumerate(names)}
    missing = next((name for name in names if features not in graph.nodes[name]), None)
    if missing is not None:
        raise UserError(f"Node {missing!r} of the NetworkX graph has no attribute {features!r}.")
    rows = [np.atleast_1d(np.asarray(graph.nodes[name][features])) for name in names]
    if len({row.shape for row in rows}) > 1:
        raise UserError(f"The attribute {features!r} must have the same length for all nodes.")
    edges = [(position[u], position[v]) for u, v in graph.edges()]
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    try:
        weights = torch.tensor([float(value) for _, _, value in graph.edges(data=weight, default=1.0)])
    except (TypeError, ValueError):
        raise UserError(f"The edge attribute {weight!r} must be a number.") from None
    weighted = any(weight in attributes for _, _, attributes in graph.edges(data=True))
    report_ignored(graph, weight, report, "the edges")
    x = np.stack(rows) if rows else np.zeros((0, 1))
    return Graph(x, edge_index, names, directed, weights if weighted else None)  # type: ignore[arg-type]


def _table_encoder_of(like: Graph | Fitted) -> Fitted:
    if not isinstance(like, Graph):
        return like
    if like.table_encoder is None:
        raise UserError("The graph passed as `like` was not made from tables.")
    return like.table_encoder


def with_warnings(dataset: Dataset) -> Graph:
    """The graph of tables; fixes and warnings of the ingest report are raised as Python warnings."""
    if dataset.ingested:
        _warn(dataset.ingested.report, stacklevel=4)
    return dataset.graph


def _warn(report: IngestReport, stacklevel: int = 3) -> None:
    for message in report.messages:
        if message.level != "info":
            warnings.warn(message.text, stacklevel=stacklevel)
