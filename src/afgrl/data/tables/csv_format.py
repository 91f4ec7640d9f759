"""How a text file writes its table: encoding, delimiter, comments, first row."""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass
from pathlib import Path

from afgrl.data.unpacking import file_suffix, open_unpacked, short_reason
from afgrl.errors import UserError

MAX_COLUMNS = 100_000
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
COMMENT_SIGNS = ("#", "%")


@dataclass(frozen=True)
class CsvFormat:
    encoding: str
    delimiter: str  # " ": any number of spaces
    n_skipped: int  # lines before the first row
    first_row: list[str]
    has_comments: bool  # below the first row, if that is not a header
    like_rows: list[int]  # lines that are read as comments, but have as many cells as a row


class EmptyTable(UserError):
    """A file without a row."""


def detect_csv_format(path: Path, encoding: str | None, *, edges: bool, header: str | None = None) -> CsvFormat:
    with open_unpacked(path) as file:
        head = file.read(1 << 20)
    encoding = encoding or next((name for mark, name in BYTE_ORDER_MARKS.items() if head.startswith(mark)), "utf-8")
    encoding = _checked_encoding(encoding)
    if b"\0" in head and not encoding.startswith("utf-16"):
        raise UserError(f"The file {path} is not text: it contains zero bytes.")
    lines = _decode(path, head, encoding).splitlines()
    if lines and re.fullmatch(r'\ufeff?"?sep=.?"?', lines[0].strip()):  # a first line that Excel understands
        lines[0] = ""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    if not filled:
        raise EmptyTable(f"The file {path} has no rows.")
    comments = [i for i in filled if edges and is_comment(lines[i])]
    first = next((i for i in filled if i not in comments), filled[0])
    delimiter = _delimiter(path, lines[first])
    cells = _cells(path, lines[first], delimiter)
    if len(cells) > MAX_COLUMNS:
        raise _too_many_columns(path)
    like_rows = [i for i in comments if _may_be_a_row(lines[i], delimiter, len(cells))]
    if first in comments and first not in like_rows:
        raise EmptyTable(f"The file {path} has no rows.")
    if first in comments or (header == "yes" and like_rows):  # # and % begin a name of a column, or an id
        first = min(first, like_rows[0])
        cells, comments, like_rows = _cells(path, lines[first], delimiter), [], []
    has_comments = any(i > first for i in comments)
    return CsvFormat(encoding, delimiter, first, cells, has_comments, like_rows)


def is_comment(line: str) -> bool:
    return line.lstrip().startswith(COMMENT_SIGNS)


def _may_be_a_row(line: str, delimiter: str, n_cells: int) -> bool:
    """#a,b is an edge of a hashtag if rows have two cells; # a,b is not."""
    after = line.lstrip().lstrip("".join(COMMENT_SIGNS))
    found = len(line.split()) if delimiter == " " else line.count(delimiter) + 1
    return bool(after) and not after[0].isspace() and n_cells == found > 1


def _cells(path: Path, line: str, delimiter: str) -> list[str]:
    try:
        cells = line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:  # a name of more than 131,072 characters
        raise UserError(f"The first row of {path} is not one of a table: {short_reason(error)}.") from None
    return [cell.strip() for cell in cells]


def _delimiter(path: Path, row: str) -> str:
    if file_suffix(path) in (".tsv", ".tab"):
        return "\t"
    counts = {sign: row.count(sign) for sign in ",;\t|"}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else " " if len(row.split()) > 1 else ","


def _checked_encoding(name: str) -> str:
    """Codecs that turn bytes into other bytes, such as hex, are no encodings of text."""
    try:
        is_text = codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):  # a name with a zero byte
        is_text = False
    if not is_text:
        raise UserError(f"Unknown encoding {name!r}; common ones are utf-8, latin-1 and utf-16.")
    return name.lower()


def _decode(path: Path, head: bytes, encoding: str) -> str:
    try:
        # Incremental, because the head of a file may end within a character.
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeError as error:
        raise undecodable(path, encoding, error) from None


def undecodable(path: Path, encoding: str, error: Exception) -> UserError:
    """Names the first invalid byte of a UTF-8 file."""
    if encoding == "utf-8":
        with open_unpacked(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(encoding)
                except UnicodeError as bad:
                    column = len(line[: bad.start].decode(encoding)) + 1  # type: ignore[attr-defined]
                    return UserError(
                        f"{path}, line {number}, column {column} is not {encoding}; save the file as {encoding}, or "
                        "pass its encoding, for example --encoding latin-1."
                    )
    return UserError(f"The file {path} cannot be read as a table: {short_reason(error)}.")


def check_column_names(path: Path, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"The file {path} has two columns named {name!r}.")
        seen.add(name)
    if len(names) > MAX_COLUMNS:
        raise _too_many_columns(path)


def _too_many_columns(path: Path) -> UserError:
    return UserError(
        f"The file {path} has more than {MAX_COLUMNS:,} columns; put that many features into features.npz as a SciPy "
        "sparse matrix."
    )
