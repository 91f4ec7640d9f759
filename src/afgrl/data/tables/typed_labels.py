"""The columns of nodes of several types as one table, and the label: a column of the tables, or the type itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.cells import to_text
from afgrl.data.tables.column_names import NO_COLUMN
from afgrl.data.tables.ids import ids_as_text
from afgrl.data.tables.labels import encode_labels
from afgrl.data.tables.node_types import TYPE_COLUMN
from afgrl.data.tables.nodes import NodeTable
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

NAME_COLUMN = "name"  # of all types; their own columns have the type before their names


def merged_columns(
    nodes: Mapping[str, NodeTable], type_names: pa.Array, options: ReadOptions, where: str
) -> tuple[str | None, pa.Table]:
    """The name of the label column, and the columns of all nodes: the type, the label and the names if the tables have
    them, and the columns of each type with its name before theirs, such as users.age; empty for nodes of other
    types."""
    given = {t: table.label for t, table in nodes.items() if table.label is not None}
    if options.label not in (None, NO_COLUMN, TYPE_COLUMN) and not given:
        raise UserError(f"There is no column {options.label!r} in {where}.")
    label = next(iter(given.values()), None)
    if label in (TYPE_COLUMN, NAME_COLUMN, "id"):
        label = f"{label} (label)"
    parts = []
    for node_type, table in nodes.items():
        own = {
            f"{node_type}.{column}": table.columns[column]
            for column in table.columns.column_names
            if column not in (table.label, table.name)
        }
        if table.name is not None:
            own = {NAME_COLUMN: to_text(table.columns[table.name])} | own
        if table.label is not None:
            own = {str(label): ids_as_text(table.columns[table.label])} | own
        n_rows = pa.nulls(table.n_listed, pa.null())  # a table may have no other column than its ids
        parts.append(pa.table({TYPE_COLUMN: n_rows} | own))
    columns = pa.concat_tables(parts, promote_options="default") if parts else pa.table({TYPE_COLUMN: pa.nulls(0)})
    extended = NodeTable(None, columns, None).extended(len(type_names))
    columns = extended.set_column(0, TYPE_COLUMN, type_names)
    if label is None and options.label != NO_COLUMN:
        label = TYPE_COLUMN
    return label, columns


def encode_label(
    columns: pa.Table, label: str | None, report: IngestReport, where: str
) -> tuple[np.ndarray | None, list[str] | None]:
    if label is None or (label == TYPE_COLUMN and pc.all(columns[label].is_null()).as_py()):
        return None, None
    if label == TYPE_COLUMN:
        report.info("Label: the node type; --label COLUMN chooses another one.")
    return encode_labels(columns[label], label, report, where)
