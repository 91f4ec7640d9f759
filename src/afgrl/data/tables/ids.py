"""Node ids in the forms in which tables contain them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill
from afgrl.data.tables.cells import to_text
from afgrl.errors import UserError


def row_numbers(n: int) -> pa.ChunkedArray:
    """0…n-1, the ids of rows that no column identifies."""
    return pa.chunked_array([pa.array(np.arange(n).astype(str))])


def ids_as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids as text without surrounding spaces; one that is only white space is missing. Integers that a table stores
    as floats are written as integers."""
    return text_of_ids(column, integers=holds_integers(column))


def holds_integers(column: pa.ChunkedArray) -> bool:
    """Whether a column has floats, all of which are integers."""
    if not pa.types.is_floating(column.type):
        return False
    column = _roundable(column)
    return bool(pc.all(pc.equal(pc.round(column), column)).as_py())


def text_of_ids(column: pa.ChunkedArray, *, integers: bool) -> pa.ChunkedArray:
    """The same for some rows of a column; ``integers`` is a property of the whole column."""
    kind = column.type
    try:
        if integers:
            column = _roundable(column)
            too_large = pc.greater_equal(pc.abs(column), 2.0**63)  # for int64: written as a float
            written = to_text(pc.cast(pc.if_else(too_large, 0.0, column), pa.int64()))
            column = pc.if_else(too_large, to_text(column), written)
        text = pc.utf8_trim_whitespace(to_text(column))
        blank = pc.equal(text, "")
        return pc.if_else(blank, pa.scalar(None, text.type), text) if pc.any(blank).as_py() else text
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, undecodable bytes, an unknown time zone
        raise UserError(f"Ids must be text or numbers, but their column has type {kind}.") from None


def _roundable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrow cannot round float16."""
    return pc.cast(column, pa.float32()) if pa.types.is_float16(column.type) else column


def drop_repeated_rows(
    table: pa.Table, ids: pa.ChunkedArray, report: IngestReport, where: str, spill: Spill | None = None
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Drop rows that repeat an earlier one; two different rows with the same id are an error."""
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first_rows = np.unique(codes, return_index=True)
    if len(first_rows) == len(codes):
        return table, ids
    first_of = first_rows[codes]
    repeated = np.flatnonzero(first_of != np.arange(len(codes)))
    pairs = zip(*(table.take(pa.array(rows)).to_pylist() for rows in (first_of[repeated], repeated)), strict=True)
    different = next((repeated[i] for i, (first, other) in enumerate(pairs) if first != other), None)
    if different is not None:
        raise UserError(
            f"Two different rows of {where} have the id {ids[int(different)].as_py()!r} (rows "
            f"{first_of[different] + 1} and {different + 1}); choose a column of unique values with --id, or --id none "
            "to number the rows."
        )
    report.fixed(f"Repeated rows of {where}, dropped: {len(repeated):,}.")
    keep = pa.array(first_rows)  # sorted, because codes are numbered by first occurrence
    if spill is None:
        return table.take(keep), ids.take(keep)
    return pa.table({name: spill.column(table[name].take(keep)) for name in table.column_names}), ids.take(keep)


def ids_as_array(ids: pa.Array) -> np.ndarray:
    """[n] int64 if every id is written as an integer without leading zeros, else text."""
    if len(ids) and pc.all(pc.match_substring_regex(ids, r"^(0|-?[1-9]\d{0,17})$")).as_py():
        return np.array(pc.cast(ids, pa.int64()))
    return np.asarray(ids.to_pylist(), dtype=object)
