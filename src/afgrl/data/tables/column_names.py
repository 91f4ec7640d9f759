"""Common names of columns, and the lookup of columns by name."""

from __future__ import annotations

import re

import pyarrow as pa

from afgrl.data.ingest import first_few
from afgrl.errors import UserError

# Compared in lower case; earlier names take precedence.
ID_NAMES = ("id", "node_id", "nodeid", "node", "key", "uid", "uuid", "index", "name", "vertex")
MAY_REPEAT = ("id", "node_id", "nodeid", "uid", "uuid")  # the id even if rows repeat; the others are if they do not
DISPLAY_NAMES = ("name", "title", "label", "full_name", "fullname", "display_name", "displayname", "caption")
SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "id1", "id_1", "start", "head", "from_id", "source_id",
                "citing")  # fmt: skip
TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "id2", "id_2", "end", "to_id", "target_id", "cited")
LABEL_NAMES = ("label", "labels", "class", "y", "ground_truth", "target")
WEIGHT_NAMES = ("weight", "weights", "w")
NO_COLUMN = "none"  # given for an id, name, label or weight: no column is one, whatever its name
PANDAS_INDEX = "the index"  # name given to the index of a DataFrame
NUMBERED = "column {}"  # name given to a column of a file without a header


def find_column(table: pa.Table, names: tuple[str, ...]) -> str | None:
    """The column with the first of these common names, if any."""
    own = {name.strip().lower(): name for name in reversed(table.column_names)}
    return next((own[name] for name in names if name in own), None)


def require_column(table: pa.Table, name: str, where: str) -> str:
    if name not in table.column_names:
        columns = first_few(table.column_names, 10) or "none"
        raise UserError(f"There is no column {name!r} in {where}; its columns: {columns}.")
    return name


def chosen_column(table: pa.Table, given: str | None, names: tuple[str, ...], where: str) -> str | None:
    """The column given by the user, which may be none, else the one with a common name."""
    if is_declined(table, given):
        return None
    return require_column(table, given, where) if given else find_column(table, names)


def is_declined(table: pa.Table, given: str | None) -> bool:
    """Whether the user gave "none": no column has the role."""
    return given == NO_COLUMN and NO_COLUMN not in table.column_names


def is_called_id(name: str) -> bool:
    return name.strip().lower().endswith("id")


def is_unnamed(name: str) -> bool:
    """Whether it is the index of a DataFrame, which has no name in a file."""
    return re.fullmatch(rf"\s*|Unnamed: \d+|{PANDAS_INDEX}", name) is not None


def words_of(name: str) -> list[str]:
    """The words of a_name, a-name or aName in lower case."""
    return [word.lower() for word in re.findall(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_][^\W\d_A-Z]*|\d+", name)]


def is_numbered(name: str) -> bool:
    """Whether it is a column of a file without a header."""
    return re.fullmatch(NUMBERED.format(r"\d+"), name) is not None


def has_no_header(table: pa.Table) -> bool:
    return is_numbered(table.column_names[0])
