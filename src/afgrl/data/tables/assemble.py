"""Tables of nodes and edges → Dataset.

The rules for imperfect tables, each reported when it applies: an edge counts in both directions, and once; self-loops,
edges with a missing end and edges whose weight is not above 0 are dropped; weights of repeated edges are added; a node
that occurs only in edges has empty columns; a node without edges stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.spill import Spill
from afgrl.data.tables.edges import EdgeTable, number_nodes, read_edges, report_nodes_and_edges
from afgrl.data.tables.encode import Fitted, TableEncoder, TypedTableEncoder
from afgrl.data.tables.features import encode_columns, given_features, nearest_neighbor_edges, structural_features
from afgrl.data.tables.ids import ids_as_array
from afgrl.data.tables.labels import encode_labels
from afgrl.data.tables.nodes import NodeTable, read_nodes
from afgrl.data.tables.numbering import number_ids
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames, find_roles
from afgrl.data.tables.typed_columns import with_types
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.sparse.layout import compact_features


def dataset_from_tables(
    nodes: pa.Table | None, edges: pa.Table | None, options: ReadOptions = ReadOptions(), *, features: Any = None,
    fitted: Fitted = None, name: str = "tables", names: TableNames = TableNames(), report: IngestReport | None = None,
    spill: Spill | None = None,
) -> Dataset:  # fmt: skip
    """A dataset from tables. ``features`` [rows, f] replaces the columns; ``fitted`` is the encoding of an earlier
    dataset, applied to these tables. Messages are added to ``report``. With ``spill``, what is as large as the tables
    is on disk; the result is the same."""
    report = IngestReport() if report is None else report
    if isinstance(fitted, TypedTableEncoder):
        types = first_few(list(fitted.types))
        raise UserError(
            f"The model was trained on several node types; pass a folder with tables named after them: {types}."
        )
    feature_columns = fitted.columns if isinstance(fitted, TableEncoder) else ()
    id_column, end_columns = find_roles(nodes, edges, options, report, names, feature_columns=feature_columns)
    table = read_nodes(nodes, id_column, features, options, report, names.nodes, fitted, spill)
    all_ids, edge_index, weight = _edges(edges, end_columns, table, options, report, names, spill)
    ids, columns = ids_as_array(all_ids), table.extended(len(all_ids))
    y, classes = None, None
    if table.label is not None:
        y, classes = encode_labels(columns[table.label], table.label, report, names.nodes)
    table_encoder: Fitted = None
    x: Any  # [n, f]; None until structural features replace it
    if features is not None:
        x = given_features(features, table.n_listed, len(ids), names.nodes, spill)
    else:
        used = columns.drop_columns([table.label]) if table.label else columns
        own = replace(options, name=table.name)
        table_encoder, x = encode_columns(used, table.n_listed, len(ids), fitted, own, report, names.nodes, spill)
    if options.knn_graph is not None:
        edge_index = nearest_neighbor_edges(x, options.knn_graph, report)
    if x is None:
        table_encoder, x = structural_features(edge_index, ids, fitted, report)
    graph = Graph(
        compact_features(x), torch.from_numpy(edge_index), ids, table_encoder=table_encoder,
        edge_weight=None if weight is None else torch.from_numpy(weight),
    )  # fmt: skip
    ingested = Ingested(
        stored_columns(ids, columns, table.label, options, spill), table.n_listed, table.label, classes, report,
        id_column=id_column, name_column=table.name,
    )  # fmt: skip
    return Dataset(name, graph, y, ingested=ingested)


def _edges(
    edges: pa.Table | None, columns: tuple[str, str] | None, table: NodeTable, options: ReadOptions,
    report: IngestReport, names: TableNames, spill: Spill | None,
) -> tuple[pa.Array, np.ndarray, np.ndarray | None]:  # fmt: skip
    """All ids, the edges as positions among them, and their weights if they have any."""
    if edges is None or columns is None:
        return *number_nodes(table.ids, None, report, names, weighted=False), None
    if spill is None:
        ends, weight = read_edges(edges, columns, table.ids, options, report, names.edges)
        return *number_nodes(table.ids, ends, report, names, weighted=weight is not None), weight
    large = EdgeTable.of(edges, columns, table.ids, options, report, names.edges)
    listed = pa.array([], pa.string()) if table.ids is None else table.ids.combine_chunks()
    ids, edge_index = number_ids(listed, large.blocks(), spill)
    large.report_to(report, names.edges)
    weight = large.valid_weights()
    report_nodes_and_edges(ids, len(listed), edge_index, report, names, weighted=weight is not None)
    return ids, edge_index, weight


def stored_columns(
    ids: np.ndarray, columns: pa.Table, label: str | None, options: ReadOptions, spill: Spill | None = None
) -> pa.Table:
    """The ids and the columns with their types; labels stay as they are written, as do columns given as text."""
    as_text = [name for name, column_type in options.column_types.items() if column_type in ("category", "text")]
    typed = with_types(columns, keep={label or "", *as_text}, spill=spill)
    return pa.table({"id": pa.array(ids)} | {name: typed[name] for name in typed.column_names})
