"""The Arrow types of columns, and the conversions that several modules need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.errors import UserError

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[nN]a[nN]|[+-]?inf"
WRITTEN_LIST = rf"^\[\s*({_NUMBER})((\s*,\s*|\s+)({_NUMBER}))*\s*\]$"


def is_text_type(arrow_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(arrow_type):
        return is_text_type(arrow_type.value_type)
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)


def is_number_type(arrow_type: pa.DataType) -> bool:
    """Whether cells convert to numbers: integers, floats, booleans, decimals, dates."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, is_date_type)
    return any(test(arrow_type) for test in tests)


def is_date_type(arrow_type: pa.DataType) -> bool:
    return pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type)


def is_list_type(arrow_type: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(arrow_type) for test in tests)


def is_written_list(column: pa.ChunkedArray) -> bool:
    """Whether every filled cell is text such as [0.1, 0.2] or, as NumPy writes it, [0.1 0.2]."""
    if not is_text_type(column.type) or column.null_count == len(column):
        return False
    return bool(pc.all(pc.match_substring_regex(trimmed_text(column), WRITTEN_LIST)).as_py())


def to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.string())


def converts_to_text(column: pa.ChunkedArray) -> bool:
    """False for lists, structs and bytes that are not text."""
    try:
        to_text(column)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


def trimmed_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(to_text(column))


def to_vectors(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """A column of lists, also of written ones, as [rows, length] float64; missing and infinite numbers are NaN."""
    if is_text_type(column.type) and is_written_list(column):
        column = _read_lists(column)
    if not is_list_type(column.type):
        raise UserError(f"The cells in column {name!r} must be lists of numbers.")
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    value_type = column.type.value_type
    if len(lengths) != 1 or not lengths[0] or not is_number_type(value_type) or is_date_type(value_type):
        raise UserError(f"The lists in column {name!r} must have the same length and contain only numbers.")
    rows = np.full((len(column), lengths[0]), np.nan)
    flat = pc.cast(pc.list_flatten(column), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    rows[column.is_valid().to_numpy()] = flat.reshape(-1, lengths[0])
    return np.where(np.isfinite(rows), rows, np.nan)


def _read_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    numbers = pc.utf8_trim(trimmed_text(column), "[] \t\r\n")
    return pc.cast(pc.split_pattern_regex(numbers, r"\s*,\s*|\s+"), pa.list_(pa.float64()))


def is_unique(column: pa.ChunkedArray) -> bool:
    """Whether each row has another value. The first rows decide for most columns, and the others are not read."""
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    head = column.slice(0, 1000)
    return len(head.unique()) == len(head) and len(column.unique()) == len(column)


def mean_words(cells: pa.ChunkedArray) -> float:
    """Words per filled cell, in the first 10,000."""
    words = pc.list_value_length(pc.split_pattern_regex(cells.drop_null().slice(0, 10_000), r"\s+"))
    return float(pc.mean(words).as_py() or 0)
