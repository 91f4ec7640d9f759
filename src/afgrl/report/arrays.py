"""What the page reads: arrays as base64, columns as numbers or as codes of their values, JSON that is safe in HTML."""

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
LONGEST = 500  # characters of a cell that the page holds
EXACT = 2**53  # whole numbers up to here are the same in JavaScript
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def packed(values: np.ndarray) -> Json:
    """A flat array as the page unpacks it: little-endian, base64."""
    flat = np.ascontiguousarray(values).reshape(-1)
    little = flat.astype(flat.dtype.newbyteorder("<"))
    return {"type": flat.dtype.name, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def packed_ids(ids: np.ndarray) -> Json | list[str]:
    whole = ids.dtype.kind in "iu" and (not len(ids) or max(-int(ids.min()), int(ids.max())) <= EXACT)
    return packed(_narrow(ids)) if whole else [str(name) for name in ids.tolist()]


def packed_column(name: str, column: pa.ChunkedArray, *, role: str = "", category: bool = False) -> Json:
    """A column of the nodes; nulls are NaN among numbers, and one code more than there are values among categories."""
    head = {"name": name, "role": role}
    if not category and _is_number(column):
        return {**head, "kind": "number", "numbers": packed(_numbers(column))}
    values, codes = _categories(texts(column))
    cut = [value if len(value) <= LONGEST else value[:LONGEST] + "…" for value in values]
    return {**head, "kind": "category", "values": cut, "codes": packed(_narrow(codes))}


def safe_json(value: Any) -> str:
    """JSON that can stand inside a <script> of a page: nothing in it ends that element or starts another."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: ESCAPES[match[0]], text)


def _is_number(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if types.is_integer(kind):
        low, high = pc.min_max(column).as_py().values()
        return low is None or max(-low, high) <= EXACT
    return types.is_floating(kind) or types.is_decimal(kind)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if types.is_integer(column.type) and column.null_count == 0:
        return _narrow(column.to_numpy())
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    values = np.where(np.isfinite(values), values, np.nan)
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    # A filter compares what is typed with what is shown, so nothing is rounded; half as long where that loses nothing.
    return short if np.array_equal(short, values, equal_nan=True) else values


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of any type as strings."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return column
    try:
        shown = [None if value is None else _text(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # a time that Python has not: nanoseconds, the year 20000, an unknown zone
        kind = pa.timestamp(column.type.unit) if types.is_timestamp(column.type) else column.type
        return column.cast(kind).cast(pa.string())
    return pa.chunked_array([pa.array(shown, pa.string())])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, bytes) else str(value)


def _categories(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The values, up to twelve in their own order and more by falling number, and the code of each row."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    values = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = np.bincount(codes, minlength=len(values) + 1)
    if len(values) <= 12:
        order = sorted(range(len(values)), key=lambda code: _natural(values[code]))
    else:
        order = sorted(range(len(values)), key=lambda code: -sizes[code])
    place = np.empty(len(values) + 1, dtype=np.int64)
    place[order] = np.arange(len(values))
    place[len(values)] = len(values)
    return [values[code] for code in order], place[codes]


def _natural(value: str) -> list[tuple[int, float, str]]:
    """A key that puts 9 before 10, and group 9 before group 10."""
    parts = re.split(r"(\d{1,15})", value)
    return [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part]


def _narrow(whole: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest of the types that a page can read."""
    low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    for kind in (np.uint8, np.uint16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return whole.astype(kind)
    return whole.astype(np.float64)


def _finite(value: Any) -> Any:
    """The same without the numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
