"""How data reaches the page: arrays as base64, columns as numbers or category codes, JSON that is safe inside HTML."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

Json = dict[str, Any]
MAX_CELL_LENGTH = 500  # characters of a cell that the page stores
MAX_EXACT_INTEGER = 2**53  # JavaScript represents integers up to this one exactly
MAX_MILLISECONDS = 8.64e15  # JavaScript's dates end there
MAX_SORTED_VALUES = 12  # categories with more values are ordered by frequency
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def pack_array(values: np.ndarray) -> Json:
    """An array, flattened, as little-endian bytes in base64."""
    flat = np.ascontiguousarray(values).reshape(-1)
    little_endian = flat.astype(flat.dtype.newbyteorder("<"))
    return {"type": flat.dtype.name, "base64": base64.b64encode(little_endian.tobytes()).decode("ascii")}


def pack_ids(ids: np.ndarray) -> Json | list[str]:
    integers = ids.dtype.kind in "iu" and (not len(ids) or max(-int(ids.min()), int(ids.max())) <= MAX_EXACT_INTEGER)
    return pack_array(smallest_type(ids)) if integers else [str(node_id) for node_id in ids.tolist()]


def pack_column(name: str, column: pa.ChunkedArray, *, role: str = "", category: bool = False) -> Json:
    """A node column. Dates and times are numbers, milliseconds since 1970, with a unit. A missing value is NaN among
    numbers, and the code ``len(values)`` among categories."""
    head = {"name": name, "role": role}
    if not category and (found := column_numbers(column)) is not None:
        numbers, unit = found
        return {**head, "kind": "number", **({"unit": unit} if unit else {}), "numbers": pack_array(numbers)}
    values, codes = _categories(as_strings(column))
    short = [shortened(value) for value in values]
    return {**head, "kind": "category", "values": short, "codes": pack_array(smallest_type(codes))}


def column_numbers(column: pa.ChunkedArray) -> tuple[np.ndarray, str | None] | None:
    """The numbers of a column, NaN for missing ones, and the unit of dates and times; None for other columns."""
    if (milliseconds := _milliseconds(column)) is not None:
        return milliseconds, "date" if types.is_date(column.type) else "time"
    return (_numbers(column), None) if _is_numeric(column) else None


def shortened(value: str) -> str:
    """A cell as the page stores it."""
    return value if len(value) <= MAX_CELL_LENGTH else value[:MAX_CELL_LENGTH] + "…"


def safe_json(value: Any) -> str:
    """JSON that can be placed inside a ``<script>`` element: it contains no character that could end the element."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: ESCAPES[match[0]], text)


def as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of any type as strings."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return column
    try:
        shown = [None if value is None else _cell_text(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # a time outside Python's range: nanoseconds, the year 20000, an unknown zone
        kind = pa.timestamp(column.type.unit) if types.is_timestamp(column.type) else column.type
        return column.cast(kind).cast(pa.string())
    return pa.chunked_array([pa.array(shown, pa.string())])


def _cell_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, bytes) else str(value)


def _is_numeric(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if types.is_integer(kind):
        low, high = pc.min_max(column).as_py().values()
        return low is None or max(-low, high) <= MAX_EXACT_INTEGER
    return types.is_floating(kind) or types.is_decimal(kind)


def _milliseconds(column: pa.ChunkedArray) -> np.ndarray | None:
    """Since 1970, NaN for missing dates: [n] float64. None for a column without dates or beyond those of JavaScript."""
    if not (types.is_timestamp(column.type) or types.is_date(column.type)):
        return None
    try:
        times = column.cast(pa.timestamp("s" if types.is_date(column.type) else column.type.unit))
        values = times.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    except pa.ArrowInvalid:  # a date that milliseconds cannot represent
        return None
    milliseconds: np.ndarray = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return None if np.nanmax(np.abs(milliseconds), initial=0) > MAX_MILLISECONDS else milliseconds


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if types.is_integer(column.type) and column.null_count == 0:
        return smallest_type(column.to_numpy())
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    values = np.where(np.isfinite(values), values, np.nan)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    # float32 only if it is exact: a filter compares the number a user typed with the stored one.
    return single if np.array_equal(single, values, equal_nan=True) else values


def _categories(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The distinct values and the code of each row."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    values = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = np.bincount(codes, minlength=len(values) + 1)
    order = value_order(values, sizes)
    new_code = np.empty(len(values) + 1, dtype=np.int64)
    new_code[order] = np.arange(len(values))
    new_code[len(values)] = len(values)
    return [values[code] for code in order], new_code[codes]


def value_order(values: list[str], sizes: np.ndarray) -> list[int]:
    """The positions of the values as a user expects them: few in natural order, many by decreasing frequency."""
    if len(values) <= MAX_SORTED_VALUES:
        return sorted(range(len(values)), key=lambda code: _natural_key(values[code]))
    order: list[int] = np.argsort(-sizes[: len(values)], kind="stable").tolist()
    return order


def _natural_key(value: str) -> list[tuple[int, float, str]]:
    """A sort key that puts 9 before 10, and group 9 before group 10."""
    parts = re.split(r"(\d{1,15})", value)
    return [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part]


def smallest_type(integers: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds them and that JavaScript has a typed array for."""
    low, high = (int(integers.min()), int(integers.max())) if len(integers) else (0, 0)
    for kind in (np.uint8, np.uint16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return integers.astype(kind)
    return integers.astype(np.float64)


def _finite(value: Any) -> Any:
    """The same value with None in place of NaN and infinity, which JSON cannot represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
