"""One table from a CSV, TSV or Parquet file; what is wrong with it is said with its line and column."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as pc
import pyarrow.parquet as pq

from afgrl.data.files.roles import HEADLESS, IDS, SOURCES, TARGETS, WEIGHTS
from afgrl.errors import UserError

CSV_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist")
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES)
MOST_COLUMNS = 100_000
MOST_UNPACKED = 8 << 30  # bytes that a packed file may become
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def suffix(path: Path) -> str:
    """The ending that tells the format; that of a packed file stands before ``.gz``."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def read_table(path: Path, *, encoding: str | None = None, edges: bool = False) -> pa.Table:
    """The table of a file. Cells of CSV stay text, so that an id such as 007 is not a number; empty ones are null.

    ``edges``: the file may do without a header and with spaces between its columns, as edge lists often do.
    """
    if not path.is_file():
        raise UserError(f"{path} is a folder, not a table." if path.is_dir() else f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise UserError(f"The file {path} is empty.")
    table = _parquet(path) if suffix(path) in PARQUET_SUFFIXES else _csv(path, encoding, edges=edges)
    if table.num_rows == 0:
        raise UserError(f"The file {path} has a header but no rows.")
    return table


def opened(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, unpacked; more than ``MOST_UNPACKED`` of them are refused before they fill the memory."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    with gzip.open(path) as packed:
        total = 0
        try:
            while part := packed.read(1 << 24):
                total += len(part)
                if total > MOST_UNPACKED:
                    raise UserError(f"The file {path} unpacks to more than {size(MOST_UNPACKED)}, and is not read.")
        except (OSError, EOFError) as error:
            raise UserError(f"The file {path} cannot be unpacked: {error}.") from None
    return gzip.open(path)


def _parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"The file {path} is no Parquet file, or it is damaged: {first_line(error)}.") from None
    _check_names(path, table.column_names)
    return table


def _csv(path: Path, encoding: str | None, *, edges: bool) -> pa.Table:
    with opened(path) as file:
        head = file.read(1 << 20)
    encoding = encoding or next((name for mark, name in MARKS.items() if head.startswith(mark)), "utf-8")
    encoding = encoding.lower()
    if b"\0" in head and not encoding.startswith("utf-16"):
        raise UserError(f"The file {path} is not text: it holds zero bytes.")
    lines_before, first, commented = _first_row(path, _text(path, head, encoding), edges=edges)
    delimiter = _delimiter(path, first)
    cells = first.split() if delimiter == " " else next(csv.reader([first], delimiter=delimiter))
    cells = [cell.strip() for cell in cells]
    if len(cells) > MOST_COLUMNS:
        raise _too_wide(path)
    with opened(path) as file:
        source: Any = file
        if edges and (commented or delimiter == " "):
            source = _clean_edge_list(path, file.read(), encoding, delimiter)
            encoding, delimiter = "utf-8", "\t" if delimiter == " " else delimiter

        def parsed(names: list[str], *, header: bool) -> pa.Table:
            _check_names(path, names)
            source.seek(0)
            return _parsed(path, source, names, delimiter, encoding, skip=lines_before + header)

        numbered = [HEADLESS.format(i) for i in range(1, len(cells) + 1)]
        if edges and all(_is_number(cell) for cell in cells):
            return parsed(numbered, header=False)
        table = parsed(cells, header=True)
        return parsed(numbered, header=False) if edges and _is_an_edge(cells, table) else table


def _is_an_edge(cells: list[str], table: pa.Table) -> bool:
    """Whether a first row is no header: it names a node of a later one, and no column as people name them."""
    if {cell.lower() for cell in cells} & {*SOURCES, *TARGETS, *WEIGHTS, *IDS}:
        return False
    later = pa.chunked_array([chunk for column in table.columns[:2] for chunk in column.chunks], pa.string())
    return bool(compute.any(compute.is_in(pa.array(cells[:2]), value_set=later.combine_chunks())).as_py())


def _parsed(path: Path, source: Any, names: list[str], delimiter: str, encoding: str, *, skip: int) -> pa.Table:
    bad: list[pc.InvalidRow] = []

    def note(row: pc.InvalidRow) -> str:
        bad.append(row)
        return "error"

    try:
        return pc.read_csv(
            source,
            # One thread, or a bad row does not know its number.
            pc.ReadOptions(column_names=names, skip_rows=skip, encoding=encoding, use_threads=False),
            pc.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
            pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )  # fmt: skip
    except (pa.ArrowException, UnicodeError) as error:
        if bad:
            row = bad[0]
            where = "" if row.number is None else f", line {_line(source, encoding, skip, row.number)}"
            raise UserError(
                f"{path}{where}: expected {row.expected_columns} cells, found {row.actual_columns}: {_short(row.text)}."
            ) from None
        raise _unreadable(path, encoding, error) from None


def _line(source: Any, encoding: str, skip: int, number: int) -> int:
    """The line of a row in the file: its number counts no empty line but those that were skipped."""
    source.seek(0)
    filled = skip
    for line, text in enumerate(io.TextIOWrapper(source, encoding), 1):
        filled += line > skip and bool(text.strip())
        if filled == number:
            return line
    return number


def _text(path: Path, head: bytes, encoding: str) -> str:
    try:
        # The piece may end within a letter, which an incremental decoder takes.
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except LookupError:
        raise UserError(f"There is no encoding {encoding!r}; utf-8, latin-1 and utf-16 are common.") from None
    except UnicodeError as error:
        raise _unreadable(path, encoding, error) from None


def _unreadable(path: Path, encoding: str, error: Exception) -> UserError:
    """Where the first byte lies that is no letter in this encoding."""
    number = 0
    if encoding == "utf-8":
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(encoding)
                except UnicodeError as bad:
                    place = len(line[: bad.start].decode(encoding)) + 1  # type: ignore[attr-defined]
                    return UserError(
                        f"{path}, line {number}, column {place} is not {encoding}; save it so, or name its encoding "
                        "(--encoding latin-1)."
                    )
    return UserError(f"The file {path} cannot be read as a table: {first_line(error)}.")


def _first_row(path: Path, text: str, *, edges: bool) -> tuple[int, str, bool]:
    """How many lines stand before the first row, that row, and whether there are comments, as in edge lists."""
    lines = text.splitlines()
    comments = {i for i, line in enumerate(lines) if edges and line.lstrip().startswith(("#", "%"))}
    if lines and re.fullmatch(r'\ufeff?"?sep=.?"?', lines[0].strip()):  # as Excel begins a file
        lines[0] = ""
    first = next((i for i, line in enumerate(lines) if line.strip() and i not in comments), None)
    if first is None:
        raise UserError(f"The file {path} has no rows.")
    return first, lines[first], bool(comments)


def _delimiter(path: Path, row: str) -> str:
    if suffix(path) in (".tsv", ".tab"):
        return "\t"
    counts = {sign: row.count(sign) for sign in ",;\t|"}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else " " if len(row.split()) > 1 else ","


def _clean_edge_list(path: Path, content: bytes, encoding: str, delimiter: str) -> io.BytesIO:
    """Without comments, which become empty lines, and with one tab between columns however many spaces there were."""
    try:
        lines = content.decode(encoding).splitlines()
    except UnicodeError as error:
        raise _unreadable(path, encoding, error) from None
    rows = ["" if line.lstrip().startswith(("#", "%")) else line for line in lines]
    if delimiter == " ":
        rows = ["\t".join(row.split()) for row in rows]
    return io.BytesIO("\n".join(rows).encode())


def _check_names(path: Path, names: list[str]) -> None:
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None) if len(names) < 10_000 else None
    if twice is not None:
        raise UserError(f"The file {path} has two columns named {twice!r}.")
    if len(names) > MOST_COLUMNS:
        raise _too_wide(path)


def _too_wide(path: Path) -> UserError:
    return UserError(
        f"The file {path} has more than {MOST_COLUMNS:,} columns; give so many features as features.npz, a scipy "
        "sparse matrix."
    )


def size(count: int) -> str:
    """Of bytes, as people say it."""
    return f"{count / 2**30:.0f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(text: str | bytes) -> str:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    text = text.strip().replace("\n", " ")
    return repr(text if len(text) <= 60 else text[:57] + "…")


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
