"""Cells that become numbers: numbers as they are, dates as seconds, booleans as 1 and 0."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.spill import row_blocks
from afgrl.data.tables.cells import is_date_type, is_number_type, is_text_type, trimmed_text

MIN_SHARE = 0.95  # of the filled cells must match a format for the column to be read as numbers
NumberFormat = Literal["number", "date", "boolean", "thousands", "decimal_comma"]  # how a text column writes numbers
PATTERNS: dict[NumberFormat, str] = {
    "number": r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF)(inity)?$",
    # ISO 8601 only: other formats do not say which part is the month.
    "date": r"^(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?$",
    "boolean": r"^(?i:true|false)$",
    "thousands": r"^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$",  # 1,234.5
    "decimal_comma": r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$",  # 1.234,5
}
NOT_READ = {"date": "not dates", "boolean": "neither true nor false"}  # in messages; by default: not numbers


def detect_format(column: pa.ChunkedArray) -> tuple[NumberFormat, float]:
    """The format that most cells match, and the share of the filled cells that match it."""
    if not is_text_type(column.type):
        return "number", float(is_number_type(column.type))
    filled = max(len(column) - column.null_count, 1)
    shares: dict[NumberFormat, float] = {}
    for number_format, pattern in PATTERNS.items():
        shares[number_format] = _n_matches(column, pattern) / filled
        if shares[number_format] >= MIN_SHARE:
            break
    return max(shares.items(), key=lambda item: item[1])


def _n_matches(column: pa.ChunkedArray, pattern: str) -> int:
    """How many cells match, counted block by block: a column may be larger than the memory."""
    blocks = (column.slice(rows.start, rows.stop - rows.start) for rows in row_blocks(len(column)))
    return sum(pc.sum(pc.match_substring_regex(trimmed_text(block), pattern)).as_py() or 0 for block in blocks)


def to_numbers(column: pa.ChunkedArray, number_format: NumberFormat = "number") -> np.ndarray:
    """[rows] float64; cells that are missing, infinite or in another format are NaN."""
    if is_text_type(column.type):
        text = trimmed_text(column)
        text = pc.if_else(pc.match_substring_regex(text, PATTERNS[number_format]), text, pa.scalar(None, pa.string()))
        if number_format == "date":
            return _seconds_since_1970(text)
        if number_format == "boolean":
            column = pc.equal(pc.utf8_lower(text), "true")
        else:
            column = pc.cast(without_separators(text, number_format), pa.float64())
    elif is_date_type(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def has_fractions(column: pa.ChunkedArray) -> bool:
    if not (is_text_type(column.type) or is_number_type(column.type)):
        return False
    values = to_numbers(column, detect_format(column)[0])
    return bool((values[np.isfinite(values)] % 1 != 0).any())


def report_unread_cells(
    name: str,
    column: pa.ChunkedArray,
    number_format: NumberFormat,
    values: np.ndarray,
    report: IngestReport,
    where: str,
) -> None:
    """Report filled cells that gave no number: words, a 13th month, infinity. ``values`` come from ``to_numbers``."""
    empty = pc.is_null(column, nan_is_null=not is_text_type(column.type)).to_numpy()
    unread = np.flatnonzero(np.isnan(values) & ~empty)
    if len(unread):
        problem = NOT_READ.get(number_format, "not numbers") if is_text_type(column.type) else "infinite"
        report.fixed(
            f"Cells in column {name!r} of {where} that are {problem}, treated as missing: {len(unread):,}, "
            f"first {column[int(unread[0])].as_py()!r} in row {unread[0] + 1}."
        )


def without_separators(text: pa.ChunkedArray, number_format: NumberFormat) -> pa.ChunkedArray:
    if number_format == "thousands":
        return pc.replace_substring(text, ",", "")
    if number_format == "decimal_comma":
        return pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    return text


def _seconds_since_1970(text: pa.ChunkedArray) -> np.ndarray:
    """[rows] float64 for text that matches the pattern of dates; NaN for a 13th month or a 32nd day."""
    matched = pc.extract_regex(text, PATTERNS["date"])
    part = {name: pc.struct_field(matched, name) for name in ("day", "hour", "minute", "second", "zone")}
    day = pc.strptime(part["day"], format="%Y-%m-%d", unit="s", error_is_null=True)
    hour, minute, second = (_digits_or_zero(part[name]) for name in ("hour", "minute", "second"))
    zone = pc.replace_substring(part["zone"], "Z", "")
    offset = _digits_or_zero(pc.utf8_slice_codeunits(zone, 1, 3)) * 60
    offset += _digits_or_zero(pc.utf8_slice_codeunits(zone, -2))
    west = pc.starts_with(zone, "-").fill_null(False).to_numpy(zero_copy_only=False)
    minutes_from_utc = np.where(west, -offset, offset)
    days = pc.cast(pc.cast(day, pa.int64()), pa.float64()).to_numpy(zero_copy_only=False)
    return days + hour * 3600 + (minute - minutes_from_utc) * 60 + second


def _digits_or_zero(digits: pa.ChunkedArray) -> np.ndarray:
    """[rows] float64; 0 where the date has no such part."""
    filled = pc.if_else(pc.equal(digits, ""), pa.scalar("0"), digits).fill_null("0")
    return pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
