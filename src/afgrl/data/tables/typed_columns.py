"""Text columns as the types that their cells have, so that a map has gradients, ranges and dates."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.spill import Spill
from afgrl.data.tables.cells import is_text_type, trimmed_text
from afgrl.data.tables.numbers import MIN_SHARE, PATTERNS, NumberFormat, detect_format, to_numbers, without_separators

SAMPLE_ROWS = 1000
INTEGER = r"^[+-]?\d{1,18}$"  # fits int64
CODE = r"^[+-]?0\d"  # 00501: a code, whose zeros count
WITH_TIME, WITH_ZONE = r"[T ]\d{2}:", r"(Z|[+-]\d{2}:?\d{2})$"
MICROSECONDS = 1_000_000


def with_types(table: pa.Table, *, keep: Collection[str], spill: Spill | None = None) -> pa.Table:
    """The table with text of numbers, dates and booleans as such. Cells of another format are null, as they are for the
    features. The columns in ``keep`` stay as they are; changed ones are stored in ``spill``."""
    typed = {}
    for name in table.column_names:
        column = table[name]
        typed[name] = column if name in keep else typed_column(column)
        if spill is not None and typed[name] is not column:
            typed[name] = spill.column(typed[name])
    return pa.table(typed)


def typed_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not is_text_type(column.type) or column.null_count == len(column):
        return column
    if detect_format(column.drop_null().slice(0, SAMPLE_ROWS))[1] < MIN_SHARE / 2:
        return column
    number_format, share = detect_format(column)
    if share < MIN_SHARE:
        return column
    text = trimmed_text(column)
    if number_format == "boolean":
        return pc.equal(_matching(text, number_format), pa.scalar("true"))
    return _dates(text) if number_format == "date" else _numbers(text, number_format, column)


def _matching(text: pa.ChunkedArray, number_format: NumberFormat) -> pa.ChunkedArray:
    """In lower case; null where a cell has another format."""
    matches = pc.match_substring_regex(text, PATTERNS[number_format])
    return pc.utf8_lower(pc.if_else(matches, text, pa.scalar(None, pa.string())))


def _numbers(text: pa.ChunkedArray, number_format: NumberFormat, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.match_substring_regex(text, CODE)).as_py():
        return column
    digits = without_separators(_matching(text, number_format), number_format)
    if pc.all(pc.match_substring_regex(digits, INTEGER)).as_py():
        return pc.cast(pc.replace_substring(digits, "+", ""), pa.int64())
    return pa.chunked_array([pa.array(to_numbers(column, number_format), from_pandas=True)])


def _dates(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days if no cell has a time, else times; in UTC if a cell has a time zone."""
    seconds = to_numbers(text, "date")
    missing = np.isnan(seconds)
    known = np.where(missing, 0, seconds)
    if not pc.any(pc.match_substring_regex(text, WITH_TIME)).as_py():
        days = pa.array((known // 86_400).astype(np.int32), pa.int32(), mask=missing)
        return pa.chunked_array([days.cast(pa.date32())])
    zone = "UTC" if pc.any(pc.match_substring_regex(text, WITH_TIME + ".*" + WITH_ZONE)).as_py() else None
    times = pa.array(np.round(known * MICROSECONDS).astype(np.int64), pa.int64(), mask=missing)
    return pa.chunked_array([times.cast(pa.timestamp("us", tz=zone))])
