"""Which columns of a node table may hold the ids: those without repetition whose role is to identify a row.

Population counts, dates and descriptions may all differ and still identify nothing: they are measurements, which are
ids only if the ends of edges are among them, or if the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.tables.cells import converts_to_text, is_number_type, is_text_type, is_unique, mean_words, trimmed_text
from afgrl.data.tables.column_names import DISPLAY_NAMES, ID_NAMES, MAY_REPEAT, is_called_id, is_unnamed
from afgrl.data.tables.numbers import MIN_SHARE, detect_format, has_fractions, to_numbers

MAX_COLUMNS = 50  # columns whose values are looked at
SAMPLE_ROWS = 10_000
MAX_WORDS = 5  # per cell of a name; longer ones describe
CODES = re.compile(  # the last word of the column's name
    r"(?:^|[_\s.-])(?:code|iata|icao|ident|isbn|issn|doi|ean|sku|slug|symbol|ticker|abbr|email|url|uri|login|iso\d?|"
    r"number|no\.?|nr\.?|#)$"
)
LEADING_ZERO = r"^0\d"
# Roles, best first.
CALLED_ID, ENDS_IN_ID, CODE, WORD, NAME, RUNNING_NUMBER, UNNAMED = range(7)


@dataclass(frozen=True)
class IdCandidates:
    """Columns that may be the id, best first in each list."""

    identifying: list[str]
    measurements: list[str]  # all values differ
    repeated: list[str]  # called like an id, but with repeated or missing values

    @property
    def in_order(self) -> list[str]:
        return [*self.identifying, *self.measurements, *self.repeated]


def id_candidates(table: pa.Table, feature_columns: Collection[str]) -> IdCandidates:
    """``feature_columns`` are known to be features, so none of them is the id."""
    names = [name for name in table.column_names if name not in feature_columns and _is_text_or_number(table[name])]
    called = [name for name in names if name.strip().lower() in ID_NAMES or is_called_id(name)][:MAX_COLUMNS]
    looked_at = dict.fromkeys([*called, *names[:MAX_COLUMNS]])
    roles, measurements, repeated = dict[str, int](), list[str](), list[str]()
    for name in looked_at:
        if name.strip().lower() in MAY_REPEAT:
            roles[name] = CALLED_ID
        elif not is_unique(table[name]):
            repeated += [name] if name in called else []
        elif (role := _role(name, table[name])) is not None:
            roles[name] = role
        else:
            measurements.append(name)
    position = {name: i for i, name in enumerate(table.column_names)}
    identifying = sorted(roles, key=lambda name: (roles[name], _place_among_common(name), position[name]))
    return IdCandidates(identifying, measurements, repeated)


def _is_text_or_number(column: pa.ChunkedArray) -> bool:
    return is_text_type(column.type) or is_number_type(column.type) or converts_to_text(column)


def _place_among_common(name: str) -> int:
    lowered = name.strip().lower()
    return ID_NAMES.index(lowered) if lowered in ID_NAMES else len(ID_NAMES)


def _role(name: str, column: pa.ChunkedArray) -> int | None:
    """The role of a column of different values; None for a measurement or a description."""
    lowered = name.strip().lower()
    if is_unnamed(name):
        return UNNAMED
    if has_fractions(column.slice(0, SAMPLE_ROWS)):
        return None
    if lowered in ID_NAMES and lowered not in DISPLAY_NAMES:
        return CALLED_ID
    if is_called_id(name):
        return ENDS_IN_ID
    if CODES.search(lowered):
        return CODE
    return _role_of_values(column)


def _role_of_values(column: pa.ChunkedArray) -> int | None:
    head = column.slice(0, SAMPLE_ROWS)
    number_format, share = detect_format(head)
    is_text = is_text_type(column.type)
    if share >= MIN_SHARE:
        if is_text and pc.any(pc.match_substring_regex(trimmed_text(head), LEADING_ZERO)).as_py() and _no_dots(head):
            return WORD  # 007
        return RUNNING_NUMBER if number_format == "number" and _is_running(column) else None
    if not is_text:
        return None
    text = trimmed_text(head)
    words = mean_words(text)
    if words > MAX_WORDS:
        return None
    has_spaces = pc.mean(pc.cast(pc.match_substring_regex(text, r"\s"), pa.float64())).as_py()
    return WORD if has_spaces <= 1 - MIN_SHARE else NAME


def _no_dots(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.match_substring_regex(trimmed_text(column), r"^\d+$")).as_py())


def _is_running(column: pa.ChunkedArray) -> bool:
    """Whether these different numbers are consecutive integers, in any order."""
    values = to_numbers(column)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type) or not np.isfinite(values).all():
        return False
    return bool((values % 1 == 0).all() and values.max() - values.min() == len(values) - 1)
