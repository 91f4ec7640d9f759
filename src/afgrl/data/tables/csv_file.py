"""The table in a CSV, TSV or edge-list file. Errors name the line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from afgrl.data.tables.column_names import ID_NAMES, NUMBERED, SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES
from afgrl.data.tables.csv_format import COMMENT_SIGNS, check_column_names, detect_csv_format, undecodable
from afgrl.data.unpacking import open_unpacked
from afgrl.errors import UserError

MAX_ROW_BYTES = 16 << 20
CSV_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist")


def read_csv_file(path: Path, encoding: str | None, *, edges: bool) -> pa.Table:
    """A table of text; with ``edges``, see ``read_table``."""
    detected = detect_csv_format(path, encoding, edges=edges)
    encoding, delimiter = detected.encoding, detected.delimiter
    with open_unpacked(path) as file:
        source: Any = file
        if edges and (detected.has_comments or delimiter == " "):
            source = _clean_edge_list(path, file.read(), encoding, delimiter)
            encoding, delimiter = "utf-8", "\t" if delimiter == " " else delimiter

        def parse(names: list[str], *, header: bool) -> pa.Table:
            check_column_names(path, names)
            source.seek(0)
            return _parse(path, source, names, delimiter, encoding, skip=detected.n_skipped + header)

        numbered = [NUMBERED.format(i) for i in range(1, len(detected.first_row) + 1)]
        if edges and all(_is_number(cell) for cell in detected.first_row):
            return parse(numbered, header=False)
        table = parse(detected.first_row, header=True)
        return parse(numbered, header=False) if edges and _is_an_edge(detected.first_row, table) else table


def _is_an_edge(cells: list[str], table: pa.Table) -> bool:
    """Whether a first row is not a header: it has a node of a later row, and no common column name."""
    if {cell.lower() for cell in cells} & {*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES, *ID_NAMES}:
        return False
    later = pa.chunked_array([chunk for column in table.columns[:2] for chunk in column.chunks], pa.string())
    return bool(pc.any(pc.is_in(pa.array(cells[:2]), value_set=later.combine_chunks())).as_py())


def _clean_edge_list(path: Path, content: bytes, encoding: str, delimiter: str) -> io.BytesIO:
    """The lines with comments emptied, which keeps line numbers, and one tab instead of any number of spaces."""
    try:
        lines = content.decode(encoding).splitlines()
    except UnicodeError as error:
        raise undecodable(path, encoding, error) from None
    rows = ["" if line.lstrip().startswith(COMMENT_SIGNS) else line for line in lines]
    if delimiter == " ":
        rows = ["\t".join(row.split()) for row in rows]
    return io.BytesIO("\n".join(rows).encode())


def _parse(path: Path, source: Any, names: list[str], delimiter: str, encoding: str, *, skip: int) -> pa.Table:
    invalid: list[pyarrow.csv.InvalidRow] = []

    def collect(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "error"

    try:
        return pyarrow.csv.read_csv(
            source,
            # With several threads, an invalid row does not know its number.
            pyarrow.csv.ReadOptions(
                column_names=names, skip_rows=skip, encoding=encoding, use_threads=False, block_size=MAX_ROW_BYTES
            ),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=collect),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )  # fmt: skip
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
