"""The type of each column that becomes features: numbers in one of their formats, categories, text, vectors."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.tables.cells import (
    converts_to_text,
    is_list_type,
    is_number_type,
    is_text_type,
    is_written_list,
    to_text,
    to_vectors,
)
from afgrl.data.tables.column_names import require_column
from afgrl.data.tables.numbers import MIN_SHARE, detect_format
from afgrl.data.tables.options import ColumnType
from afgrl.errors import UserError

FEW_VALUES = 50  # a text column with at most this many different values holds categories,
SHARE_OF_VALUES = 0.1  # as does one in which a value occurs in ten rows on average,
SHARE_OF_SHORT_VALUES = 0.5  # or in two rows on average if the values are shorter than text; others are names
MIN_WORDS = 2.5  # mean number of words per cell of a text column

DESCRIPTION = {
    "number": "numbers", "date": "dates", "boolean": "booleans", "category": "categories", "text": "text",
    "vector": "vectors", "thousands": "numbers such as 1,234.5", "decimal_comma": "numbers such as 1.234,5",
}  # fmt: skip


def choose_column_types(
    table: pa.Table, given: Mapping[str, ColumnType], report: IngestReport, where: str, *, shown: str | None = None
) -> dict[str, str]:
    """The type of each column that becomes features, given by the user or inferred from the cells; for numbers it is
    their format. Ignored columns are not in the result. ``shown`` holds the names of nodes: nobody needs to be warned
    that those are not features."""
    for name in given:
        require_column(table, name, where)
    types: dict[str, str] = {}
    for name in table.column_names:
        column = table[name]
        if column.null_count == len(column) and given.get(name) != "ignore":
            report.fixed(f"Ignored column {name!r} of {where}: it is empty.")
        elif name in given:
            types[name] = _given_type(name, column, given[name], where)
        else:
            types[name] = _inferred_type(name, column, IngestReport() if name == shown else report, where)
    types = {name: column_type for name, column_type in types.items() if column_type != "ignore"}
    for column_type in dict.fromkeys(types.values()):
        names = [name for name, other in types.items() if other == column_type]
        report.info(f"Columns of {where} read as {DESCRIPTION[column_type]}: {first_few(names, 6)}.")
    return types


def _given_type(name: str, column: pa.ChunkedArray, column_type: ColumnType, where: str) -> str:
    if column_type == "ignore":
        return column_type
    if column_type == "number" and (is_list_type(column.type) or is_written_list(column)):
        return "vector"
    if column_type == "number":
        number_format, share = detect_format(column)
        if share < MIN_SHARE:
            raise UserError(
                f"The column {name!r} of {where} cannot be read as numbers: only {share:.0%} of its cells are numbers."
            )
        return number_format
    if not converts_to_text(column):
        raise UserError(
            f"The column {name!r} of {where} cannot be read as {DESCRIPTION[column_type]}: its type is {column.type}."
        )
    return column_type


def _inferred_type(name: str, column: pa.ChunkedArray, report: IngestReport, where: str) -> str:
    if is_list_type(column.type) or is_written_list(column):
        return _type_of_lists(name, column, report, where)
    if is_number_type(column.type):
        return "number"
    if not is_text_type(column.type):
        report.warning(f"Ignored column {name!r} of {where}: its type {column.type} is not supported.")
        return "ignore"
    number_format, share = detect_format(column)
    return number_format if share >= MIN_SHARE else _type_of_text(name, to_text(column).drop_null(), report, where)


def _type_of_text(name: str, cells: pa.ChunkedArray, report: IngestReport, where: str) -> str:
    n_values = pc.count_distinct(cells).as_py()
    words = pc.list_value_length(pc.split_pattern_regex(cells.slice(0, 10_000), r"\s+"))
    if (n_values <= FEW_VALUES and n_values < max(len(cells), 2)) or n_values <= SHARE_OF_VALUES * len(cells):
        return "category"
    if pc.mean(words).as_py() >= MIN_WORDS:
        return "text"
    if n_values <= SHARE_OF_SHORT_VALUES * len(cells):
        return "category"
    report.warning(
        f"Ignored column {name!r} of {where}: {n_values:,} different values in {len(cells):,} rows look like names; "
        f"use --column {name}=text or --column {name}=category to include it."
    )
    return "ignore"


def _type_of_lists(name: str, column: pa.ChunkedArray, report: IngestReport, where: str) -> str:
    try:
        to_vectors(column, name)
    except UserError:
        report.warning(f"Ignored column {name!r} of {where}: its lists differ in length or contain other than numbers.")
        return "ignore"
    return "vector"
