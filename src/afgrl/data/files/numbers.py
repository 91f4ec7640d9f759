"""Cells that become numbers: numbers as they are, dates as seconds, true and false as 1 and 0."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.notes import Notes

NEARLY_ALL = 0.95  # a column of numbers may hold so few cells that are none
Form = Literal["number", "date", "truth", "thousands", "comma"]  # how a column of text writes its numbers
FORMS: dict[Form, str] = {
    "number": r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF)(inity)?$",
    # ISO 8601. Other ways to write a date leave open which part is the month.
    "date": r"^(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?$",
    "truth": r"^(?i:true|false)$",
    "thousands": r"^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$",  # 1,234.5
    "comma": r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$",  # 1.234,5
}

NO: dict[Form, str] = {
    "number": "no numbers", "date": "no dates", "truth": "neither true nor false", "thousands": "no numbers",
    "comma": "no numbers",
}  # fmt: skip


def form_of(column: pa.ChunkedArray) -> tuple[Form, float]:
    """How a column writes its numbers, and the share of its cells that are some, of those that are not empty."""
    if not is_text(column.type):
        return "number", float(is_plain_number(column.type))
    text = _trimmed(column)
    filled = max(len(column) - column.null_count, 1)
    shares: dict[Form, float] = {}
    for form, pattern in FORMS.items():
        shares[form] = (pc.sum(pc.match_substring_regex(text, pattern)).as_py() or 0) / filled
        if shares[form] >= NEARLY_ALL:
            break
    return max(shares.items(), key=lambda item: item[1])


def as_numbers(column: pa.ChunkedArray, form: Form = "number") -> np.ndarray:
    """Float64; what is missing, infinite or not of this form is NaN."""
    if is_text(column.type):
        text = _trimmed(column)
        text = pc.if_else(pc.match_substring_regex(text, FORMS[form]), text, pa.scalar(None, pa.string()))
        if form == "date":
            return _seconds(text)
        column = pc.equal(pc.utf8_lower(text), "true") if form == "truth" else pc.cast(_plain(text, form), pa.float64())
    elif is_date(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def tell_unread(name: str, column: pa.ChunkedArray, form: Form, values: np.ndarray, notes: Notes, where: str) -> None:
    """Say which filled cells gave no number: words, a thirteenth month, infinite ones."""
    empty = pc.is_null(column, nan_is_null=not is_text(column.type)).to_numpy()
    bad = np.flatnonzero(np.isnan(values) & ~empty)
    if len(bad):
        what = NO[form] if is_text(column.type) else "infinite"
        notes.repaired(
            f"Cells in column {name!r} of {where} that are {what}, and count as missing: {len(bad):,}, "
            f"{column[int(bad[0])].as_py()!r} in row {bad[0] + 1} first."
        )


def _plain(text: pa.ChunkedArray, form: Form) -> pa.ChunkedArray:
    """Numbers as programs write them."""
    if form == "thousands":
        return pc.replace_substring(text, ",", "")
    return pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".") if form == "comma" else text


def _seconds(text: pa.ChunkedArray) -> np.ndarray:
    """Since 1970 of dates that match their form; NaN for a thirteenth month."""
    parts = pc.extract_regex(text, FORMS["date"])
    part = {name: pc.struct_field(parts, name) for name in ("day", "hour", "minute", "second", "zone")}
    day = pc.strptime(part["day"], format="%Y-%m-%d", unit="s", error_is_null=True)
    hour, minute, second = (_or_zero(part[name]) for name in ("hour", "minute", "second"))
    zone = pc.replace_substring(part["zone"], "Z", "")
    ahead = _or_zero(pc.utf8_slice_codeunits(zone, 1, 3)) * 60 + _or_zero(pc.utf8_slice_codeunits(zone, -2))
    ahead = np.where(pc.starts_with(zone, "-").fill_null(False).to_numpy(zero_copy_only=False), -ahead, ahead)
    days = pc.cast(pc.cast(day, pa.int64()), pa.float64()).to_numpy(zero_copy_only=False)
    return days + hour * 3600 + (minute - ahead) * 60 + second


def _or_zero(digits: pa.ChunkedArray) -> np.ndarray:
    """A part of a date as a number; 0 where it is not there."""
    known = pc.if_else(pc.equal(digits, ""), pa.scalar("0"), digits).fill_null("0")
    return pc.cast(known, pa.float64()).to_numpy(zero_copy_only=False)


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))


def is_plain_number(kind: pa.DataType) -> bool:
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in known) or is_date(kind)


def is_date(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
