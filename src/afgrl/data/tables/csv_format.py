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
    has_comments: bool
    first_row: list[str]


def detect_csv_format(path: Path, encoding: str | None, *, edges: bool) -> CsvFormat:
    with open_unpacked(path) as file:
        head = file.read(1 << 20)
    encoding = encoding or next((name for mark, name in BYTE_ORDER_MARKS.items() if head.startswith(mark)), "utf-8")
    encoding = _checked_encoding(encoding)
    if b"\0" in head and not encoding.startswith("utf-16"):
        raise UserError(f"The file {path} is not text: it contains zero bytes.")
    n_skipped, line, has_comments = _first_row(path, _decode(path, head, encoding), edges=edges)
    delimiter = _delimiter(path, line)
    try:
        cells = line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:  # a name of more than 131,072 characters
        raise UserError(f"The first row of {path} is not one of a table: {short_reason(error)}.") from None
    if len(cells) > MAX_COLUMNS:
        raise _too_many_columns(path)
    return CsvFormat(encoding, delimiter, n_skipped, has_comments, [cell.strip() for cell in cells])


def _first_row(path: Path, text: str, *, edges: bool) -> tuple[int, str, bool]:
    """The number of lines before the first row, that row, and whether there are comments (in edge lists only)."""
    lines = text.splitlines()
    comments = {i for i, line in enumerate(lines) if edges and line.lstrip().startswith(COMMENT_SIGNS)}
    if lines and re.fullmatch(r'\ufeff?"?sep=.?"?', lines[0].strip()):  # a first line that Excel understands
        lines[0] = ""
    first = next((i for i, line in enumerate(lines) if line.strip() and i not in comments), None)
    if first is None:
        raise UserError(f"The file {path} has no rows.")
    return first, lines[first], bool(comments)


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
