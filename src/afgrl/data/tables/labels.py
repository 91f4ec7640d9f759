"""The label column of a node table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_names import LABEL_NAMES, chosen_column
from afgrl.data.tables.ids import ids_as_text
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

MIN_ROWS = 20  # below, any column may hold classes


def label_column(table: pa.Table, options: ReadOptions, report: IngestReport, where: str) -> str | None:
    name = chosen_column(table, options.label, LABEL_NAMES, where)
    if name is None:
        return None
    if not options.label and not _could_be_classes(table[name]):
        report.info(
            f"Column {name!r} of {where} is not used as label, because most of its values differ; "
            f"use --label {name} to use it."
        )
        return None
    report.info(f"Label: column {name!r} of {where}; training does not use it.")
    return name


def _could_be_classes(column: pa.ChunkedArray) -> bool:
    try:
        known = ids_as_text(column).drop_null()
    except (UserError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return len(known) < MIN_ROWS or 2 * len(known.unique()) <= len(known)


def encode_labels(column: pa.ChunkedArray, name: str, report: IngestReport, where: str) -> tuple[np.ndarray, list[str]]:
    """The class of each node, [n] int64 with -1 for unlabeled nodes, and the names of the classes."""
    text = ids_as_text(column)
    if _numbers_with_minus_one(text):  # the usual sign for a missing label
        text = pc.if_else(pc.equal(text, "-1"), pa.scalar(None, text.type), text)
    classes = sorted(text.drop_null().unique().to_pylist(), key=_numbers_first)
    if not classes:
        raise UserError(f"The label column {name!r} of {where} is empty.")
    y = pc.index_in(text, value_set=pa.array(classes)).fill_null(-1).to_numpy().astype(np.int64)
    if text.null_count:
        report.info(f"Nodes without a label: {text.null_count:,} of {len(text):,}.")
    return y, classes


def _numbers_with_minus_one(text: pa.ChunkedArray) -> bool:
    found = text.drop_null().unique().to_pylist()
    return "-1" in found and all(name.isdigit() for name in found if name != "-1")


def _numbers_first(name: str) -> tuple[int, str]:
    """Sorts numbers by value, before words."""
    return (len(name), name) if name.isdigit() else (99, name)
