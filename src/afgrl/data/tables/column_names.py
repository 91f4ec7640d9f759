"""Common names of columns, and the lookup of columns by name."""

from __future__ import annotations

import re

import pyarrow as pa

from afgrl.data.ingest import first_few
from afgrl.data.tables.options import ReadOptions
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


def has_no_header(table: pa.Table) -> bool:
    return table.column_names[0] == NUMBERED.format(1)


def looks_like_edges(table: pa.Table, options: ReadOptions) -> bool:
    if options.source or options.target:
        return True
    named = find_column(table, SOURCE_NAMES) is not None and find_column(table, TARGET_NAMES) is not None
    return table.num_columns == 2 or named or (has_no_header(table) and _starts_with_an_edge(table))


def _starts_with_an_edge(table: pa.Table) -> bool:
    """Whether the first row is two integers, and perhaps a weight and a time."""
    return 2 <= table.num_columns <= 4 and all(str(table[place][0]).strip().isdigit() for place in (0, 1))
