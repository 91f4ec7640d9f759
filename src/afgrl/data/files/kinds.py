"""What a column holds: numbers, categories, text, or nothing that says anything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.files.numbers import NEARLY_ALL, form_of, is_date, is_plain_number, is_text
from afgrl.data.files.options import Kind
from afgrl.data.notes import Notes
from afgrl.errors import UserError

FEW_VALUES = 50  # a column of so few different words is one of categories,
SHARE_OF_VALUES = 0.1  # as is one where a value stands in ten rows on average
WORDS = 2.5  # on average in a cell that is text

PLURAL = {
    "number": "numbers", "date": "dates", "truth": "true or false", "category": "categories", "text": "text",
    "vector": "lists of numbers", "thousands": "numbers such as 1,234.5", "comma": "numbers such as 1.234,5",
}  # fmt: skip


def choose_kinds(table: pa.Table, told: Mapping[str, Kind], notes: Notes, where: str) -> dict[str, str]:
    """The kind of each column that becomes features, by what the user told and else by a look at it; of a column of
    numbers, their form."""
    missing = [name for name in told if name not in table.column_names]
    if missing:
        raise UserError(f"{where} has no column {missing[0]!r}; it has {_quoted(table.column_names)}.")
    kinds: dict[str, str] = {}
    for name in table.column_names:
        column = table[name]
        kind = _as_told(name, column, told[name], notes, where) if name in told else _guess(name, column, notes, where)
        if kind != "ignore":
            kinds[name] = kind
    groups: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        groups.setdefault(kind, []).append(name)
    for kind, names in groups.items():
        notes.understood(f"{_quoted(names)} of {where}: {PLURAL[kind]}.")
    return kinds


def _as_told(name: str, column: pa.ChunkedArray, kind: Kind, notes: Notes, where: str) -> str:
    if kind == "ignore":
        return kind
    if column.null_count == len(column):
        return _left_out_as_empty(name, notes, where)
    if kind != "number" and not _is_writable(column):
        raise UserError(f"The column {name!r} of {where} is to be {PLURAL[kind]}, but it holds {column.type}.")
    if kind == "number" and _is_list(column.type):
        return "vector"
    if kind != "number":
        return kind
    form, share = form_of(column)
    if share < NEARLY_ALL:
        raise UserError(f"The column {name!r} of {where} is to be numbers, but only {share:.0%} of its cells are.")
    return form


def _guess(name: str, column: pa.ChunkedArray, notes: Notes, where: str) -> str:
    if column.null_count == len(column):
        return _left_out_as_empty(name, notes, where)
    if _is_list(column.type):
        return _guess_list(name, column, notes, where)
    if is_plain_number(column.type):
        return "number"
    if not is_text(column.type):
        notes.repaired(f"The column {name!r} of {where} holds {column.type}, which is no feature, and is left out.")
        return "ignore"
    form, share = form_of(column)
    if share >= NEARLY_ALL:
        return form
    return _guess_words(name, as_text(column).drop_null(), notes, where)


def _left_out_as_empty(name: str, notes: Notes, where: str) -> str:
    notes.repaired(f"The column {name!r} of {where} is empty and left out.")
    return "ignore"


def _guess_words(name: str, cells: pa.ChunkedArray, notes: Notes, where: str) -> str:
    distinct = pc.count_distinct(cells).as_py()
    words = pc.mean(pc.list_value_length(pc.split_pattern_regex(cells.slice(0, 10_000), r"\s+"))).as_py()
    if (distinct <= FEW_VALUES and distinct < max(len(cells), 2)) or distinct <= SHARE_OF_VALUES * len(cells):
        return "category"
    if words >= WORDS:
        return "text"
    notes.repaired(
        f"The column {name!r} of {where} has {distinct:,} different values in {len(cells):,} rows, as names do, "
        f"and is left out; --column {name}=text or {name}=category takes it."
    )
    return "ignore"


def _guess_list(name: str, column: pa.ChunkedArray, notes: Notes, where: str) -> str:
    try:
        as_vectors(column)
    except UserError as error:
        notes.repaired(f"The column {name!r} of {where} is left out: {error}")
        return "ignore"
    return "vector"


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.string())


def _is_writable(column: pa.ChunkedArray) -> bool:
    """Whether the cells can be written as text; lists and bytes cannot."""
    try:
        as_text(column)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


def as_vectors(column: pa.ChunkedArray) -> np.ndarray:
    """[rows, length] of a column of lists; NaN where there is no number, or an infinite one."""
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    value_type = column.type.value_type
    if len(lengths) != 1 or not lengths[0] or not is_plain_number(value_type) or is_date(value_type):
        raise UserError("The lists of a column must have one length and hold nothing but numbers.")
    rows = np.full((len(column), lengths[0]), np.nan)
    flat = pc.cast(pc.list_flatten(column), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    rows[column.is_valid().to_numpy()] = flat.reshape(-1, lengths[0])
    return np.where(np.isfinite(rows), rows, np.nan)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _quoted(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
