"""Which column of a node table holds names to show beside the ids."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.cells import converts_to_text, is_text_type, mean_words, to_text
from afgrl.data.tables.column_names import DISPLAY_NAMES, find_column, is_declined, require_column
from afgrl.data.tables.id_column import MAX_WORDS
from afgrl.data.tables.numbers import MIN_SHARE, detect_format
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

ENDINGS = ("name", "title")  # of the names of columns: airport_name
MOSTLY_DIFFERENT, ALMOST_ALL_DIFFERENT = 0.5, 0.9  # share of different values in a column of names


def display_name_column(
    columns: pa.Table, id_column: str | None, ids: pa.ChunkedArray, options: ReadOptions, report: IngestReport,
    where: str, *, label: str | None,
) -> str | None:  # fmt: skip
    """The column given by the user, else one that is called name or the like, else, for ids that are numbers, the
    first column of short texts that almost all differ."""
    if is_declined(columns, options.name) or (options.name and options.name == id_column):
        return None
    name = require_column(columns, options.name, where) if options.name else _guess(columns, id_column, ids, label)
    if name is not None and not converts_to_text(columns[name]):
        raise UserError(f"The column {name!r} of {where} cannot hold names: its type is {columns[name].type}.")
    if name is not None:
        rule = "" if options.name else "; --name chooses another column, or none"
        report.info(f"Names shown beside the ids: column {name!r} of {where}{rule}.")
    return name


def _guess(columns: pa.Table, id_column: str | None, ids: pa.ChunkedArray, label: str | None) -> str | None:
    if id_column is not None and _is_called_name(id_column):
        return None
    table = columns if label is None else columns.drop_columns([label])
    common = [name for name in (find_column(table, (known,)) for known in DISPLAY_NAMES) if name is not None]
    ending = [name for name in table.column_names if _is_called_name(name)]
    for name in dict.fromkeys([*common, *ending]):
        if _could_be_names(table[name], MOSTLY_DIFFERENT):
            return name
    if not pc.all(pc.match_substring_regex(ids, r"^-?\d+$")).as_py():
        return None
    return next((name for name in table.column_names if _could_be_names(table[name], ALMOST_ALL_DIFFERENT)), None)


def _is_called_name(name: str) -> bool:
    return name.strip().lower().endswith(ENDINGS) or name.strip().lower() in DISPLAY_NAMES


def _could_be_names(column: pa.ChunkedArray, share_of_different: float) -> bool:
    if not is_text_type(column.type):
        return False
    filled = to_text(column).drop_null()
    head = filled.slice(0, 1000)
    if not len(filled) or len(head.unique()) < share_of_different * len(head):
        return False
    if detect_format(head)[1] >= MIN_SHARE or mean_words(head) > MAX_WORDS:
        return False
    return len(filled.unique()) >= share_of_different * len(column)
