"""The table in a CSV, TSV or edge-list file. Errors name the line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from afgrl.data.native_files import native_text
from afgrl.data.spill import Spill
from afgrl.data.tables.column_names import ID_NAMES, NUMBERED, SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES
from afgrl.data.tables.csv_format import COMMENT_SIGNS, check_column_names, detect_csv_format, undecodable
from afgrl.data.unpacking import open_unpacked
from afgrl.errors import UserError

MAX_ROW_BYTES = 16 << 20
CSV_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist")


def read_csv_file(path: Path, encoding: str | None, *, edges: bool, spill: Spill | None = None) -> pa.Table:
    """A table of text; ``edges`` and ``spill``: see ``read_table``."""
    detected = detect_csv_format(path, encoding, edges=edges)
    encoding, delimiter = detected.encoding, detected.delimiter
    with open_unpacked(path) as file:
        source: Any = file
        if edges and (detected.has_comments or delimiter == " "):
            source = _clean_edge_list(path, file, encoding, delimiter, spill)
            encoding, delimiter = "utf-8", "\t" if delimiter == " " else delimiter

        def parse(names: list[str], *, header: bool) -> pa.Table:
            check_column_names(path, names)
            source.seek(0)
            return _parse(path, source, names, delimiter, encoding, skip=detected.n_skipped + header, spill=spill)

        numbered = [NUMBERED.format(i) for i in range(1, len(detected.first_row) + 1)]
        if edges and all(_is_number(cell) for cell in detected.first_row):
            return parse(numbered, header=False)
        table = parse(detected.first_row, header=True)
        return parse(numbered, header=False) if edges and _is_an_edge(detected.first_row, table) else table


def _is_an_edge(cells: list[str], table: pa.Table) -> bool:
    """Whether a first row is not a header: it has a node of a later row, and no common column name."""
    if {cell.lower() for cell in cells} & {*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES, *ID_NAMES}:
        return False
    first = pa.array(cells[:2], pa.string())
    return any(bool(pc.any(pc.is_in(column, value_set=first)).as_py()) for column in table.columns[:2])


def _clean_edge_list(path: Path, file: Any, encoding: str, delimiter: str, spill: Spill | None) -> Any:
    """The lines with comments emptied, which keeps line numbers, and one tab instead of any number of spaces."""
    cleaned: Any = io.BytesIO() if spill is None else open(spill.new_file(), "wb+")  # noqa: SIM115
    try:
        for line in io.TextIOWrapper(file, encoding):
            row = "" if line.lstrip().startswith(COMMENT_SIGNS) else line.rstrip("\r\n")
            cleaned.write((("\t".join(row.split()) if delimiter == " " else row) + "\n").encode())
    except UnicodeError as error:
        raise undecodable(path, encoding, error) from None
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
        raise UserError(
            f"{path}{line}: expected {row.expected_columns} cells, found {row.actual_columns}: {_shortened(row.text)}."
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
