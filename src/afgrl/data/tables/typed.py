"""Several node tables and the edges between them → one Dataset with a column for the node type.

Each type has its own block of features, 0 for nodes of other types. If an id occurs in two types, all ids are written
with their type, such as users:7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_names import NO_COLUMN
from afgrl.data.tables.edges import EndIds, number_nodes, read_edges
from afgrl.data.tables.encode import TypedTableEncoder
from afgrl.data.tables.features import structural_features
from afgrl.data.tables.ids import ids_as_array, ids_as_text
from afgrl.data.tables.node_types import TYPE_COLUMN, TypedEnds, TypedTables, find_typed_ends, own_id_column
from afgrl.data.tables.nodes import NodeTable, read_nodes
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames, find_roles
from afgrl.data.tables.typed_columns import with_types
from afgrl.data.tables.typed_features import encode_types
from afgrl.data.tables.typed_ids import id_of_type, ids_of_types, resolved_end, shared_id
from afgrl.data.tables.typed_labels import NAME_COLUMN, encode_label, merged_columns
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.sparse.layout import compact_features


class _EdgeTable(NamedTuple):
    where: str
    ends: TypedEnds
    ids: EndIds  # without types
    weight: np.ndarray | None  # [e], mean 1


def dataset_from_typed_tables(
    tables: TypedTables, options: ReadOptions = ReadOptions(), *, fitted: TypedTableEncoder | None = None,
    name: str = "tables", report: IngestReport | None = None,
) -> Dataset:  # fmt: skip
    """``fitted`` is the encoding of an earlier dataset, whose types and form of ids are used again."""
    report = IngestReport() if report is None else report
    if fitted is None:
        _check_given_columns(tables, options)
    types = list(fitted.types if fitted else tables.nodes)
    ends = {where: find_typed_ends(table, types, options, where) for where, table in tables.edges.items()}
    nodes = {node_type: _read_nodes(node_type, tables, ends, options, fitted, report) for node_type in tables.nodes}
    edges = [_read_edges(where, tables.edges[where], found, nodes, options, report) for where, found in ends.items()]
    ids = ids_of_types({t: table.ids for t, table in nodes.items()}, [(edge.ends.types, edge.ids) for edge in edges])
    typed_ids = _writes_types(ids, tables.where, fitted, report)
    names = TableNames(" and ".join(tables.where.values()), " and ".join(tables.edges))
    all_ids, edge_index, codes = _number_nodes(nodes, edges, types, typed_ids, report, names)
    n_listed = sum(table.n_listed for table in nodes.values())
    counts = ", ".join(f"{t!r} ({(codes == code).sum():,})" for code, t in enumerate(types))
    report.info(f"Node types: {counts}; each has its own features.")
    type_names = pa.array(np.array([*types, None], dtype=object)[codes], pa.string())  # code -1: unknown
    label, columns = merged_columns(nodes, type_names, options, names.nodes)
    y, classes = encode_label(columns, label, report, names.nodes)
    x: Any  # [n, f]
    encoders, x = encode_types(nodes, types, codes, fitted, options, report, tables.where)
    node_ids, structure = ids_as_array(all_ids), fitted.structure if fitted else None
    if structure is not None or not x.shape[1]:
        structure, x = structural_features(edge_index, node_ids, structure, report)
    weight = _weights(edges)
    graph = Graph(
        compact_features(x), torch.from_numpy(edge_index), node_ids,
        edge_weight=None if weight is None else torch.from_numpy(weight),
        table_encoder=TypedTableEncoder(encoders, typed_ids, structure),
    )  # fmt: skip
    as_text = [column for column, kind in options.column_types.items() if kind in ("category", "text")]
    columns = with_types(columns, keep={TYPE_COLUMN, NAME_COLUMN, label or "", *as_text})
    columns = pa.table({"id": pa.array(node_ids)} | {column: columns[column] for column in columns.column_names})
    id_columns = [table.id_column for table in nodes.values()]
    ingested = Ingested(
        columns, n_listed, label, classes, report,
        id_column=None if None in id_columns else ", ".join(dict.fromkeys(map(str, id_columns))),
        name_column=NAME_COLUMN if NAME_COLUMN in columns.column_names else None,
    )  # fmt: skip
    return Dataset(name, graph, y, ingested=ingested)


def _check_given_columns(tables: TypedTables, options: ReadOptions) -> None:
    """A column given by the user must be in one of the tables."""
    roles = (
        (options.id, "node"),
        (options.name, "node"),
        (options.source, "edge"),
        (options.target, "edge"),
        (options.weight, "edge"),
    )
    for given, kind in roles:
        parts = (tables.nodes if kind == "node" else tables.edges).values()
        if given not in (None, NO_COLUMN) and not any(given in table.column_names for table in parts):
            raise UserError(f"There is no column {given!r} in any {kind} table.")


def _read_nodes(
    node_type: str, tables: TypedTables, ends: Mapping[str, TypedEnds], options: ReadOptions,
    fitted: TypedTableEncoder | None, report: IngestReport,
) -> NodeTable:  # fmt: skip
    table, where = tables.nodes[node_type], tables.where[node_type]
    label = options.label if options.label in (None, NO_COLUMN, *table.column_names) else NO_COLUMN
    features = fitted.types[node_type].columns if fitted else ()
    given = options.id if options.id in (NO_COLUMN, *table.column_names) else own_id_column(table, node_type)
    name = options.name if options.name in (NO_COLUMN, *table.column_names) else None
    own = replace(options, id=given, name=name, label=NO_COLUMN if label == TYPE_COLUMN else label)
    if given is None:  # the values of the edges tell
        cells = [
            ids_as_text(tables.edges[edge_table][column])
            for edge_table, found in ends.items()
            for column, end_type in zip(found.columns, found.types, strict=True)
            if end_type in (node_type, None)
        ]
        values = pa.chunked_array([chunk for column in cells for chunk in column.chunks], pa.string())
        sample = pa.table({"source": values, "target": values}) if len(values) else None
        id_column, _ = find_roles(table, sample, own, IngestReport(), TableNames(where), feature_columns=features)
        own = replace(own, id=id_column)
    id_column, _ = find_roles(table, None, own, report, TableNames(where), feature_columns=features)
    return read_nodes(table, id_column, None, own, report, where, fitted.types[node_type] if fitted else None)


def _read_edges(
    where: str, table: pa.Table, ends: TypedEnds, nodes: Mapping[str, NodeTable], options: ReadOptions,
    report: IngestReport,
) -> _EdgeTable:  # fmt: skip
    linked = [node_type or "nodes of any type" for node_type in ends.types]
    report.info(f"Edges: columns {ends.columns[0]!r} ({linked[0]}) and {ends.columns[1]!r} ({linked[1]}) of {where}.")
    own = replace(options, weight=options.weight if options.weight in (NO_COLUMN, *table.column_names) else None)
    known = [node.ids for t, node in nodes.items() if node.ids is not None and (t in ends.types or None in ends.types)]
    listed = pa.chunked_array([chunk for ids in known for chunk in ids.chunks], pa.string())
    ids, weight = read_edges(table, ends.columns, listed if len(listed) else None, own, report, where)
    for column, node_type, values in zip(ends.columns, ends.types, ids, strict=True):
        node = nodes.get(node_type or "")
        if node is None or node.ids is None or not len(values):
            continue
        if not pc.any(pc.is_in(values, value_set=node.ids.combine_chunks())).as_py():
            raise UserError(
                f"None of the ids in column {column!r} of {where}, such as {values[0].as_py()!r}, is an id of "
                f"{node_type!r}, such as {node.ids[0].as_py()!r}; choose the id column with --id."
            )
    return _EdgeTable(where, ends, ids, None if weight is None else weight / max(weight.mean(), 1e-300))


def _writes_types(
    ids: Mapping[str, pa.Array], where: Mapping[str, str], fitted: TypedTableEncoder | None, report: IngestReport
) -> bool:
    """Whether ids are written with their type: if two types have an id in common, or if the fitted ones are."""
    shared = next((pair for pair in combinations(ids, 2) if shared_id(ids[pair[0]], ids[pair[1]])), None)
    if fitted is not None:
        if shared is not None and not fitted.typed_ids:
            raise UserError(
                f"The id {shared_id(ids[shared[0]], ids[shared[1]])!r} occurs in two node types, {shared[0]!r} and "
                f"{shared[1]!r}, but the ids of the training graph are distinct."
            )
        return fitted.typed_ids
    if shared is not None:
        example = id_of_type(shared[0], str(shared_id(ids[shared[0]], ids[shared[1]])))
        report.fixed(
            f"Ids that occur both in {shared[0]!r} and in {shared[1]!r} are made distinct: all ids have the form "
            f"{example!r}."
        )
    return shared is not None


def _number_nodes(
    nodes: Mapping[str, NodeTable], edges: list[_EdgeTable], types: list[str], typed_ids: bool, report: IngestReport,
    names: TableNames,
) -> tuple[pa.Array, np.ndarray, np.ndarray]:  # fmt: skip
    """All ids, those of the node tables first; the edges as positions among them, [2, e]; the type of each node, [n]
    int64 with -1 for unknown types."""
    listed = {t: table.ids for t, table in nodes.items() if table.ids is not None}
    written = {t: id_of_type(t, ids) if typed_ids else ids for t, ids in listed.items()}
    chunks = [chunk for ids in written.values() for chunk in ids.chunks]
    ends: list[list[pa.Array]] = [[], []]
    for edge in edges:
        for side in (0, 1):
            node_type, column = edge.ends.types[side], edge.ends.columns[side]
            found = resolved_end(edge.ids[side], node_type, listed, f"column {column!r} of {edge.where}", typed_ids)
            ends[side] += found.chunks
    source, target = (pa.chunked_array(side, pa.string()) for side in ends)
    ids, edge_index = number_nodes(
        pa.chunked_array(chunks, pa.string()), (source, target) if edges else None, report, names,
        weighted=any(edge.weight is not None for edge in edges),
    )  # fmt: skip
    codes = np.full(len(ids), -1)
    start = 0
    for edge in edges:
        stop = start + len(edge.ids[0])
        for side in (0, 1):
            if edge.ends.types[side] is not None:
                codes[edge_index[side, start:stop]] = types.index(str(edge.ends.types[side]))
        start = stop
    listed_codes = [np.full(len(ids), types.index(t)) for t, ids in written.items()]
    codes[: sum(map(len, listed_codes))] = np.concatenate(listed_codes) if listed_codes else []
    return ids, edge_index, codes


def _weights(edges: list[_EdgeTable]) -> np.ndarray | None:
    """[e]: edges of a table without weights have weight 1, the mean of the weights of each other table."""
    if all(edge.weight is None for edge in edges):
        return None
    return np.concatenate([np.ones(len(edge.ids[0])) if edge.weight is None else edge.weight for edge in edges])
