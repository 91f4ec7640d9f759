"""A NetworkX graph as tables of nodes and edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from afgrl.data.dataset import Dataset
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames

if TYPE_CHECKING:
    import networkx as nx


def dataset_from_networkx(graph: nx.Graph, weight: str, fitted: Fitted = None) -> Dataset:
    """From a NetworkX graph whose node attributes, if any, are columns and not vectors."""
    nodes, edges = tables_from_networkx(graph, weight)
    names = TableNames("the nodes", "the edges")
    return dataset_from_tables(nodes, edges, ReadOptions(id="id"), fitted=fitted, names=names)


def tables_from_networkx(graph: nx.Graph, weight: str = "weight") -> tuple[pa.Table, pa.Table]:
    """Nodes with their attributes as columns; edges with a weight if one of them differs from 1."""
    ids = {name: str(name) for name in graph.nodes}
    attributes = list(dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data if key != "id"))
    columns = {key: _to_column([data.get(key) for _, data in graph.nodes(data=True)]) for key in attributes}
    nodes = pa.table({"id": list(ids.values()), **columns})
    rows = [(ids[u], ids[v], data.get(weight, 1)) for u, v, data in graph.edges(data=True)]
    source, target, weights = zip(*rows, strict=True) if rows else ((), (), ())
    edges = {"source": pa.array(source, pa.string()), "target": pa.array(target, pa.string())}
    if any(value != 1 for value in weights):
        edges["weight"] = _to_column(list(weights))
    return nodes, pa.table(edges)


def _to_column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
        return pa.array([None if value is None else str(value) for value in values])
