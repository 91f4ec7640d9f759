"""A node table: its ids, its columns, and which column is the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill
from afgrl.data.tables.column_encoders import CategoryColumn
from afgrl.data.tables.column_names import is_unnamed
from afgrl.data.tables.display_name import display_name_column
from afgrl.data.tables.encode import Fitted, TableEncoder
from afgrl.data.tables.ids import drop_repeated_rows, ids_as_text, row_numbers
from afgrl.data.tables.labels import label_column
from afgrl.data.tables.missing import mark_missing_cells
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError


@dataclass(frozen=True)
class NodeTable:
    """The node table after its checks."""

    ids: pa.ChunkedArray | None  # [n_listed] text; None if there is no node table
    columns: pa.Table  # the other columns
    label: str | None = None  # which of them is the label
    name: str | None = None  # which of them is shown beside the ids
    id_column: str | None = None  # which column held the ids; None: its row numbers are the ids

    @property
    def n_listed(self) -> int:
        return 0 if self.ids is None else len(self.ids)

    def extended(self, n: int) -> pa.Table:
        """The columns with empty rows for the nodes that occur only in edges: [n, columns]."""
        n_missing = n - self.columns.num_rows
        if not n_missing or not self.columns.num_columns:
            return self.columns
        empty = {field.name: pa.nulls(n_missing, field.type) for field in self.columns.schema}
        return pa.concat_tables([self.columns, pa.table(empty, schema=self.columns.schema)])


def read_nodes(
    table: pa.Table | None, id_column: str | None, features: Any, options: ReadOptions, report: IngestReport,
    where: str, fitted: Fitted = None, spill: Spill | None = None,
) -> NodeTable:  # fmt: skip
    """Without a table, the rows of ``features`` are the nodes; without an id column, row numbers are the ids."""
    if table is None:
        return NodeTable(None if features is None else row_numbers(features.shape[0]), pa.table({}))
    unnamed = [name for name in table.column_names if is_unnamed(name) and name != id_column]
    if unnamed:
        report.info(f"Ignored a column of {where} without a name, probably the index of a DataFrame.")
        table = table.drop_columns(unnamed)
    table, ids = _split_ids(table, id_column, report, where, spill)
    columns = mark_missing_cells(table, options, report, where, known=_known_values(fitted), spill=spill)
    columns = columns.rename_columns(["id (column)" if name == "id" else name for name in columns.column_names])
    label = label_column(columns, options, report, where)
    name = display_name_column(columns, id_column, ids, options, report, where, label=label)
    return NodeTable(ids, columns, label, name, id_column)


def _split_ids(
    table: pa.Table, id_column: str | None, report: IngestReport, where: str, spill: Spill | None
) -> tuple[pa.Table, pa.ChunkedArray]:
    """The other columns, and the ids as text."""
    if id_column is None:
        return table, row_numbers(table.num_rows)
    ids = ids_as_text(table[id_column])
    if ids.null_count:
        first = ids.is_null().to_numpy().argmax() + 1
        raise UserError(
            f"Rows of {where} without an id in column {id_column!r}: {ids.null_count:,}, first row {first}; choose "
            "another column with --id, or --id none to number the rows."
        )
    return drop_repeated_rows(table.drop_columns([id_column]), ids, report, where, spill)


def _known_values(fitted: Fitted) -> dict[str, list[str]]:
    """The categories of an earlier table, by column."""
    parts = fitted.parts if isinstance(fitted, TableEncoder) else ()
    return {part.name: part.values for part in parts if isinstance(part, CategoryColumn)}
