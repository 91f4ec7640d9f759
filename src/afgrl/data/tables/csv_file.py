"""The table in a CSV, TSV or edge-list file. Errors name the line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from afgrl.data.ingest import IngestReport
from afgrl.data.native_files import native_text
from afgrl.data.spill import Spill
from afgrl.data.tables.column_names import NUMBERED
from afgrl.data.tables.csv_format import CsvFormat, check_column_names, detect_csv_format, is_comment, undecodable
from afgrl.data.tables.header import is_header
from afgrl.data.unpacking import open_unpacked
from afgrl.errors import UserError

MAX_ROW_BYTES = 16 << 20
CSV_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist")


def read_csv_file(
    path: Path, encoding: str | None, *, edges: bool, header: str | None = None, report: IngestReport | None = None,
    spill: Spill | None = None,
) -> pa.Table:  # fmt: skip
    """A table of text; for the options, see ``read_table``."""
    found = detect_csv_format(path, encoding, edges=edges, header=header)
    numbered = [NUMBERED.format(i) for i in range(1, len(found.first_row) + 1)]
    with open_unpacked(path) as file:

        def rows(*, below_header: bool, comments: bool) -> pa.Table:
            """The rows as columns with numbers; with ``comments``, lines that begin with # or % are none."""
            source, encoding, delimiter = file, found.encoding, found.delimiter
            source.seek(0)
            if edges and (comments or delimiter == " "):
                source = _clean_edge_list(path, file, encoding, delimiter, spill, comments=comments)
                encoding, delimiter = "utf-8", "\t" if delimiter == " " else delimiter
                source.seek(0)
            skip = found.n_skipped + below_header
            return _parse(path, source, numbered, delimiter, encoding, skip=skip, spill=spill)

        table, has_header = None, header != "no"
        if edges and header is None:
            has_numbers = all(map(_is_number, found.first_row))
            table = None if has_numbers else rows(below_header=True, comments=found.has_comments)
            has_header = table is not None and is_header(found.first_row, table)
        if report is not None:
            _report_comments(found, report, path.name, has_header=has_header)
        if not has_header:
            return rows(below_header=False, comments=found.has_comments)
        check_column_names(path, found.first_row)
        if table is None or found.has_comments:  # below a header, # and % begin ids
            table = rows(below_header=True, comments=False)
        return table.rename_columns(found.first_row)


def _report_comments(found: CsvFormat, report: IngestReport, where: str, *, has_header: bool) -> None:
    lines = [line for line in found.like_rows if line < found.n_skipped or not has_header]
    if lines and not all(map(_is_number, found.first_row)):
        report.warning(
            f"Lines of {where} that begin with # or % are read as comments, though they have as many cells as a row: "
            f"{len(lines):,}, first in line {lines[0] + 1}; they are rows if the first line has column names (--header "
            "yes)."
        )


def _clean_edge_list(
    path: Path, file: Any, encoding: str, delimiter: str, spill: Spill | None, *, comments: bool
) -> Any:
    """The lines with comments emptied, which keeps line numbers, and one tab instead of any number of spaces."""
    cleaned: Any = io.BytesIO() if spill is None else open(spill.new_file(), "wb+")  # noqa: SIM115
    text = io.TextIOWrapper(file, encoding)
    try:
        for line in text:
            row = "" if comments and is_comment(line) else line.rstrip("\r\n")
            cleaned.write((("\t".join(row.split()) if delimiter == " " else row) + "\n").encode())
    except UnicodeError as error:
        raise undecodable(path, encoding, error) from None
    finally:
        text.detach()  # otherwise it closes the file
    return cleaned


def _parse(
    path: Path, source: Any, names: list[str], delimiter: str, encoding: str, *, skip: int, spill: Spill | None
) -> pa.Table:
    invalid: list[pyarrow.csv.InvalidRow] = []

    def collect(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "error"

    how = (
        # With several threads, an invalid row does not know its number.
        pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=skip, use_threads=False, block_size=MAX_ROW_BYTES
        ),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=collect),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )  # fmt: skip
    try:
        with native_text(source, encoding, spill) as text:
            if spill is None:
                return pyarrow.csv.read_csv(text, *how)
            with pyarrow.csv.open_csv(text, *how) as reader:
                return spill.table(reader.schema, reader)
    except (pa.ArrowException, UnicodeError) as error:
        if "straddl" in str(error):  # what Arrow says of a row that does not fit a block
            raise UserError(f"A row of {path} is longer than 16 MiB; is a quote not closed?") from None
        if not invalid:
            raise undecodable(path, encoding, error) from None
        row = invalid[0]
        line = "" if row.number is None else f", line {_line_number(source, encoding, skip, row.number)}"
        advice = "; a table with a header has no comments" if is_comment(row.text) else ""
        raise UserError(
            f"{path}{line}: expected {row.expected_columns} cells, found {row.actual_columns}: {_shortened(row.text)}"
            f"{advice}."
        ) from None


def _line_number(source: Any, encoding: str, skip: int, row_number: int) -> int:
    """The line of a row in the file. Row numbers count skipped lines, but no empty lines after them."""
    source.seek(0)
    n_filled = skip
    for line, text in enumerate(io.TextIOWrapper(source, encoding), 1):
        n_filled += line > skip and bool(text.strip())
        if n_filled == row_number:
            return line
    return row_number


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _shortened(text: str | bytes) -> str:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    text = text.strip().replace("\n", " ")
    return repr(text if len(text) <= 60 else text[:57] + "…")
