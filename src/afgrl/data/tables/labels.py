"""The label column of a node table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_names import LABEL_NAMES, chosen_column, find_column
from afgrl.data.tables.ids import ids_as_text
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

UNLABELED = r"^-1(\.0)?$"
MIN_ROWS = 20  # below, any column may hold classes
# The most classes per row. A column called target often holds numbers to predict.
MAX_CLASSES, MAX_TARGETS = 0.5, 0.1


def label_column(table: pa.Table, options: ReadOptions, report: IngestReport, where: str) -> str | None:
    if options.label:
        name = chosen_column(table, options.label, (), where)
        if name is not None and not _has_labels(table[name]):
            raise UserError(f"The label column {name!r} of {where} has no labels; --label none ignores it.")
    else:
        called = [name for name in (find_column(table, (known,)) for known in LABEL_NAMES) if name is not None]
        filled = [name for name in called if _has_labels(table[name])]
        name = next((name for name in filled or called if _could_be_classes(name, table[name])), None)
        if called and name is None:
            report.info(
                f"Column {filled[0]!r} of {where} is not used as label, because most of its values differ; "
                f"use --label {filled[0]} to use it."
            )
    if name is not None:
        report.info(f"Label: column {name!r} of {where}; training does not use it.")
    return name


def _has_labels(column: pa.ChunkedArray) -> bool:
    """Not if every cell is empty or -1, as those of new nodes usually are."""
    try:
        known = ids_as_text(column).drop_null()
    except UserError:  # a column of lists holds something
        return True
    return bool(pc.any(pc.invert(pc.match_substring_regex(known, UNLABELED))).as_py())


def _could_be_classes(name: str, column: pa.ChunkedArray) -> bool:
    try:
        known = ids_as_text(column).drop_null()
    except (UserError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    most = MAX_TARGETS if name.strip().lower() == "target" else MAX_CLASSES
    return len(known) < MIN_ROWS or len(known.unique()) <= most * len(known)


def encode_labels(
    column: pa.ChunkedArray, name: str, report: IngestReport, where: str
) -> tuple[np.ndarray | None, list[str] | None]:
    """The class of each node, [n] int64 with -1 for unlabeled nodes, and the names of the classes; None for both if no
    node has a label."""
    text = _as_integers(ids_as_text(column))
    if _numbers_with_minus_one(text):  # the usual sign for a missing label
        text = pc.if_else(pc.equal(text, "-1"), pa.scalar(None, text.type), text)
    classes = sorted(text.drop_null().unique().to_pylist(), key=_numbers_first)
    if not classes:
        report.info(f"No node has a label in column {name!r} of {where}.")
        return None, None
    y = pc.index_in(text, value_set=pa.array(classes)).fill_null(-1).to_numpy().astype(np.int64)
    if text.null_count:
        report.info(f"Nodes without a label: {text.null_count:,} of {len(text):,}.")
    return y, classes


def _as_integers(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """1.0 becomes 1: how tables write integers in a column with missing values."""
    decimals = pc.all(pc.match_substring_regex(text, r"^-?\d+\.0$")).as_py()
    return pc.replace_substring_regex(text, r"\.0$", "") if decimals else text


def _numbers_with_minus_one(text: pa.ChunkedArray) -> bool:
    found = text.drop_null().unique().to_pylist()
    return "-1" in found and all(name.isdigit() for name in found if name != "-1")


def _numbers_first(name: str) -> tuple[int, str]:
    """Sorts numbers by value, before words."""
    return (len(name), name) if name.isdigit() else (99, name)
