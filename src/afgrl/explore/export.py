"""Files of selected nodes, written part by part, so that a client gets the first rows of a million at once."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence, Set

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute as pc
from pyarrow import csv, types

from afgrl.errors import UserError, unknown
from afgrl.explore.nodes import Nodes
from afgrl.explore.parameters import MAX_QUOTED, Format
from afgrl.report.arrays import as_strings
from afgrl.runs.embeddings import FORMULA, vector_column

PART_ROWS = 20_000  # of a file that are written at a time


def checked_rows(nodes: Nodes, rows: Sequence[int]) -> np.ndarray:
    """The rows of a request, [m] int64."""
    if len(rows) > len(nodes.ids):  # a repeated row could make the file much larger than the run
        raise UserError(f"An export has at most {len(nodes.ids):,} rows, one for each node, not {len(rows):,}.")
    selected = np.asarray(rows, dtype=np.int64)
    invalid = selected[(selected < 0) | (selected >= len(nodes.ids))]
    if len(invalid):
        raise UserError(f"Row {invalid[0]} does not exist; the rows are 0 to {len(nodes.ids) - 1}.")
    return selected


def export_rows(
    nodes: Nodes, rows: np.ndarray, format: Format, *, columns: Sequence[str] | None = None, vectors: bool = False
) -> tuple[Iterator[bytes], int]:
    """The parts of a file with rows of the node table, and how many of its cells are escaped so that a spreadsheet does
    not compute them."""
    for name in columns or ():
        if name not in nodes.table.column_names[1:]:
            raise unknown("column", name[:MAX_QUOTED], nodes.table.column_names[1:] or ["none"])
    if columns is not None and len(set(columns)) < len(columns):
        raise UserError("An export has each column once.")
    table = nodes.table.select(["id", *columns]) if columns is not None else nodes.table
    starts = range(0, max(1, len(rows)), PART_ROWS)
    parts = (
        (table.take(pa.array(chosen)), nodes.vectors[chosen] if vectors else None)
        for chosen in (rows[start : start + PART_ROWS] for start in starts)
    )
    if format == "parquet":
        return _parquet_parts(parts), 0
    return _csv_parts(parts), _n_formulas(table, rows)


Part = tuple[pa.Table, np.ndarray | None]  # some rows and their vectors, if they are wanted


def _parquet_parts(parts: Iterator[Part]) -> Iterator[bytes]:
    file, writer = io.BytesIO(), None
    for table, vectors in parts:
        if vectors is not None:
            table = _without_names(table, {"embedding"}).append_column("embedding", vector_column(vectors))
        writer = writer or pq.ParquetWriter(_Growing(file), table.schema)
        writer.write_table(table)
        yield _taken(file)
    if writer is not None:
        writer.close()
    yield _taken(file)


def _csv_parts(parts: Iterator[Part]) -> Iterator[bytes]:
    for number, (table, vectors) in enumerate(parts):
        dimensions = {} if vectors is None else {f"e{i}": pa.array(column) for i, column in enumerate(vectors.T)}
        table = _without_names(table, dimensions.keys())
        names = _escaped(pa.chunked_array([pa.array(table.column_names, pa.string())])).to_pylist()
        columns = {name: _escaped(column) for name, column in zip(names, table.columns, strict=True)}
        file = io.BytesIO()
        csv.write_csv(pa.table(columns | dimensions), file, csv.WriteOptions(include_header=number == 0))
        yield file.getvalue()


class _Growing(io.RawIOBase):
    """A file that reports its full length although its content is taken away part by part."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file, self._written = file, 0

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        size = self._file.write(content)  # type: ignore[arg-type]
        self._written += size
        return size

    def tell(self) -> int:
        return self._written


def _taken(file: io.BytesIO) -> bytes:
    content = file.getvalue()
    file.seek(0)
    file.truncate()
    return content


def _without_names(table: pa.Table, reserved: Set[str]) -> pa.Table:
    """The table with its columns renamed where they have a reserved name, which the vectors use."""
    taken = reserved | set(table.column_names)

    def free_name(name: str) -> str:
        return free_name(f"{name} (column)") if name in taken else name

    return table.rename_columns([free_name(name) if name in reserved else name for name in table.column_names])


def _n_formulas(table: pa.Table, rows: np.ndarray) -> int:
    names = pa.chunked_array([pa.array(table.column_names, pa.string())])
    chosen = table.select([i for i, field in enumerate(table.schema) if not _is_number(field.type)]).take(
        pa.array(rows)
    )
    return sum(pc.sum(_is_formula(texts)).as_py() or 0 for texts in [names, *map(_starts_of_cells, chosen.columns)])


def _starts_of_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that start as the cells do. Arrow writes a million dates at once, Python takes seconds."""
    if not types.is_date(column.type) and not types.is_timestamp(column.type):
        return as_strings(column)
    without_zone = column.cast(pa.timestamp(column.type.unit)) if types.is_timestamp(column.type) else column
    return without_zone.cast(pa.string())


def _escaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text that a spreadsheet would read as a formula gets a leading apostrophe; numbers stay numbers."""
    if _is_number(column.type):
        return column
    text = as_strings(column)
    quote, separator = (pa.scalar(part, text.type) for part in ("'", ""))
    return pc.if_else(_is_formula(text), pc.binary_join_element_wise(quote, text, separator), text)


def _is_formula(text: pa.ChunkedArray) -> pa.ChunkedArray:
    starts = "".join("\\-" if start == "-" else start for start in FORMULA)
    return pc.fill_null(pc.match_substring_regex(text, f"^[{starts}]"), False)


def _is_number(kind: pa.DataType) -> bool:
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
