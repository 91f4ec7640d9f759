"""Ids as people write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.files.kinds import as_text
from afgrl.data.files.numbers import is_text
from afgrl.data.notes import Notes
from afgrl.errors import UserError

# An id may be one of these: NA is Namibia.
WORDS_FOR_NOTHING = pa.array(["NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"])


def known_cells(column: pa.ChunkedArray, but: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """A column whose words for nothing are null, those apart that occur in ``but``."""
    if not is_text(column.type):
        return column
    words = WORDS_FOR_NOTHING
    if but is not None:
        words = words.filter(pc.invert(pc.is_in(words, value_set=but.combine_chunks())))
    text = as_text(column)
    nothing = pc.is_in(text, value_set=words)
    return pc.if_else(nothing, pa.scalar(None, pa.string()), text) if pc.any(nothing).as_py() else column


def names_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids as text without spaces around them; a whole number is written as one, also where a table made it 7.0."""
    if pa.types.is_nested(column.type):
        raise UserError(f"An id must be a name or a number, not {column.type}.")
    if pa.types.is_floating(column.type) and pc.all(pc.equal(pc.round(column), column)).as_py():
        beyond = pc.greater_equal(pc.abs(column), 2.0**63)  # and stays a float, written as one
        whole = as_text(pc.cast(pc.if_else(beyond, 0.0, column), pa.int64()))
        column = pc.if_else(beyond, as_text(column), whole)
    return pc.utf8_trim_whitespace(as_text(column))


def without_repetitions(
    table: pa.Table, ids: pa.ChunkedArray, notes: Notes, where: str
) -> tuple[pa.Table, pa.ChunkedArray]:
    """A row that stands there twice counts once; two different rows with one id are an error."""
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    if len(first) == len(codes):
        return table, ids
    first_of = first[codes]
    again = np.flatnonzero(first_of != np.arange(len(codes)))
    originals, copies = (table.take(pa.array(rows)).combine_chunks().to_pylist() for rows in (first_of[again], again))
    differing = next((i for i, (a, b) in enumerate(zip(originals, copies, strict=True)) if a != b), None)
    if differing is not None:
        row = again[differing]
        raise UserError(
            f"{where} has two different rows with the id {ids[int(row)].as_py()!r}, rows {first_of[row] + 1} and "
            f"{row + 1}; ids must differ."
        )
    notes.repaired(f"Rows of {where} that were there before, and count once: {len(again):,}.")
    keep = pa.array(np.sort(first))
    return table.take(keep), ids.take(keep)


def own_ids(ids: pa.Array) -> np.ndarray:
    """Integers where every id is written as one, else text."""
    text = np.asarray(ids.to_pylist(), dtype=object)
    plain = pc.all(pc.match_substring_regex(ids, r"^(0|-?[1-9]\d{0,17})$")).as_py()
    return text.astype(np.int64) if plain and len(text) else text
