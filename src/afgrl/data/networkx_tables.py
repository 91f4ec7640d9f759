"""A NetworkX graph as tables of nodes and edges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from afgrl.data.dataset import Dataset
from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.node_arrays import MANY_NAMES
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames

if TYPE_CHECKING:
    import networkx as nx


def dataset_from_networkx(
    graph: nx.Graph, weight: str, fitted: Fitted = None, options: ReadOptions = ReadOptions()
) -> Dataset:
    """From a NetworkX graph whose node attributes, if any, are columns and not vectors."""
    nodes, edges = tables_from_networkx(graph, weight)
    names, report = TableNames("the nodes", "the edges"), IngestReport()
    report_ignored(graph, weight, report, names.edges)
    return dataset_from_tables(
        nodes, edges, replace(options, id="id"), fitted=fitted, name="graph", names=names, report=report
    )


def report_ignored(graph: nx.Graph, weight: str, report: IngestReport, where: str) -> None:
    """Attributes of edges other than their weight. Those and the key of a multigraph tell relations apart."""
    attributes = [str(key) for _, _, data in graph.edges(data=True) for key in data if key not in (weight, "id")]
    if graph.is_multigraph():
        keys = ((key, data.get("id")) for _, _, key, data in graph.edges(keys=True, data=True))
        if any(not isinstance(key, int) and key != edge_id for key, edge_id in keys):
            attributes.insert(0, "key")
    if attributes:
        text = f"Ignored attributes of {where}: {first_few(list(dict.fromkeys(attributes)), MANY_NAMES)}"
        (report.warning if graph.is_multigraph() else report.info)(f"{text}; an edge has only a weight.")


def node_attributes(graph: nx.Graph, without: str) -> dict[str, pa.Array]:
    """The attributes of the nodes as columns, except one."""
    attributes = dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data)
    columns = {key: _to_column([data.get(key) for _, data in graph.nodes(data=True)]) for key in attributes}
    return {_column_name(key): column for key, column in columns.items() if key != without}


def tables_from_networkx(graph: nx.Graph, weight: str = "weight") -> tuple[pa.Table, pa.Table]:
    """Nodes with their attributes as columns; edges with a weight if one of them differs from 1."""
    ids = {name: str(name) for name in graph.nodes}
    nodes = pa.table({"id": list(ids.values()), **node_attributes(graph, "id")})
    rows = [(ids[u], ids[v], data.get(weight, 1)) for u, v, data in graph.edges(data=True)]
    source, target, weights = zip(*rows, strict=True) if rows else ((), (), ())
    edges = {"source": pa.array(source, pa.string()), "target": pa.array(target, pa.string())}
    if any(value != 1 for value in weights):
        edges["weight"] = _to_column(list(weights))
    return nodes, pa.table(edges)


def _column_name(key: Any) -> str:
    return "id (column)" if key == "id" else str(key)


def _to_column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
        return pa.array([None if value is None else str(value) for value in values])
