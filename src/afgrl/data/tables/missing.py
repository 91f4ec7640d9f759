"""Words for a missing value: NA, NULL and the like, and those that a user adds."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.spill import Spill
from afgrl.data.tables.cells import is_text_type, to_text, trimmed_text
from afgrl.data.tables.options import ReadOptions

DEFAULT_WORDS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
CODE = "NA"  # Namibia, North America, sodium: a value where the other values are two letters too
TWO_LETTERS = r"^[A-Za-z]{2}$"
MIN_CODES = 3  # other values of a column of codes


def missing_words(options: ReadOptions) -> list[str]:
    return [*(DEFAULT_WORDS if options.keep_default_na else ()), *options.na_values]


def without_missing_words(column: pa.ChunkedArray, words: Collection[str]) -> pa.ChunkedArray:
    """The column with null for these words; for numbers that are written as words, also in a column of numbers."""
    if not words:
        return column
    if is_text_type(column.type):
        text = to_text(column)
        missing = pc.is_in(pc.utf8_trim_whitespace(text), value_set=pa.array(words, pa.string()))
        return pc.if_else(missing, pa.scalar(None, pa.string()), text) if pc.any(missing).as_py() else column
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = pa.array([number for number in map(_number, words) if number is not None], pa.float64())
        missing = pc.is_in(pc.cast(column, pa.float64(), safe=False), value_set=numbers)
        return pc.if_else(missing, pa.scalar(None, column.type), column) if pc.any(missing).as_py() else column
    return column


def mark_missing_cells(
    table: pa.Table, options: ReadOptions, report: IngestReport, where: str, *, known: Mapping[str, Collection[str]],
    spill: Spill | None = None,
) -> pa.Table:  # fmt: skip
    """The table with null for words that mean a missing value, and what was found in the report. ``known`` are values
    of columns that an earlier table had, which therefore are values. Changed columns are stored in ``spill``."""
    words = missing_words(options)
    codes = [] if CODE in options.na_values or CODE not in words else _columns_of_codes(table)
    if codes:
        report.info(
            f"{CODE!r} in column {first_few(codes)} of {where} is a value, because the others have two letters too; "
            f"--na-values {CODE} reads it as missing."
        )
    marked, found = {}, dict[str, int]()
    for name in table.column_names:
        column, kept = table[name], {*known.get(name, ()), *([CODE] if name in codes else [])}
        marked[name] = without_missing_words(column, [word for word in words if word not in kept])
        for word, count in _words_lost(column, marked[name]).items():
            found[word] = found.get(word, 0) + count
        if spill is not None and marked[name] is not column:
            marked[name] = spill.column(marked[name])
    if found:
        shown = ", ".join(f"{word!r} ({count:,})" for word, count in sorted(found.items()))
        rule = "--na-values adds words, --no-default-na keeps NA and the like"
        report.info(f"Cells of {where} read as missing values: {shown}; {rule}.")
    return pa.table(marked)


def _columns_of_codes(table: pa.Table) -> list[str]:
    """The columns in which NA is a code. None, if NA also occurs in a column of another kind: then it is how the
    table writes a missing value."""
    names = [name for name in table.column_names if is_text_type(table[name].type)]
    with_code = [name for name in names if pc.any(pc.equal(trimmed_text(table[name]), CODE)).as_py()]
    values = (trimmed_text(table[name]).drop_null().unique() for name in with_code)  # one column in memory at a time
    return with_code if all(map(_are_codes, values)) else []


def _are_codes(values: pa.Array) -> bool:
    others = values.filter(pc.invert(pc.is_in(values, value_set=pa.array([CODE, *DEFAULT_WORDS, ""]))))
    return len(others) >= MIN_CODES and bool(pc.all(pc.match_substring_regex(others, TWO_LETTERS)).as_py())


def _words_lost(before: pa.ChunkedArray, after: pa.ChunkedArray) -> dict[str, int]:
    if before.null_count == after.null_count:
        return {}
    lost = before.filter(pc.and_(before.is_valid(), after.is_null()))
    counts = to_text(lost).value_counts()
    return {str(entry["values"]).strip(): entry["counts"].as_py() for entry in counts}


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return None if number != number else number
