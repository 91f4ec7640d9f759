"""A node table: its ids, its columns, and which column is the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_names import is_unnamed
from afgrl.data.tables.ids import drop_repeated_rows, ids_as_text, without_missing_words
from afgrl.data.tables.labels import label_column
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError


@dataclass(frozen=True)
class NodeTable:
    """The node table after its checks."""

    ids: pa.ChunkedArray | None  # [n_listed] text; None if there is no node table
    columns: pa.Table  # the other columns
    label: str | None  # which of them is the label

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
    table: pa.Table | None, id_column: str | None, features: Any, options: ReadOptions, report: IngestReport, where: str
) -> NodeTable:
    """Without a table, the rows of ``features`` are the nodes, with their positions as ids."""
    if table is None or id_column is None:
        positions = None if features is None else pa.array(np.arange(features.shape[0]).astype(str))
        return NodeTable(None if positions is None else pa.chunked_array([positions]), pa.table({}), None)
    unnamed = [name for name in table.column_names if is_unnamed(name) and name != id_column]
    if unnamed:
        report.info(f"Ignored a column of {where} without a name, probably the index of a DataFrame.")
        table = table.drop_columns(unnamed)
    ids = ids_as_text(table[id_column])
    if ids.null_count:
        first = ids.is_null().to_numpy().argmax() + 1
        raise UserError(f"Rows of {where} without an id: {ids.null_count:,}, first row {first}; each node needs an id.")
    table, ids = drop_repeated_rows(table.drop_columns([id_column]), ids, report, where)
    cells = {name: without_missing_words(table[name]) for name in table.column_names}
    columns = pa.table({"id (column)" if name == "id" else name: column for name, column in cells.items()})
    return NodeTable(ids, columns, label_column(columns, options, report, where))
