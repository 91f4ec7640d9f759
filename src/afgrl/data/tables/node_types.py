"""Which tables of a folder list nodes of a type, which list edges, and which types the columns of edges refer to."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from afgrl.data.tables.column_names import ID_NAMES, SOURCE_NAMES, TARGET_NAMES, find_column, words_of
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

TYPE_COLUMN = "type"  # of nodes.parquet
EDGE_FILES = re.compile(r"edge|link|relation|interaction|citation|adjacen|cites", re.IGNORECASE)
NODE_FILES = re.compile(
    r"node|vert|entit|feature|attribute|item|people|person|user|paper|content|points?$", re.IGNORECASE
)
ALL_TYPES = re.compile(r"(nodes?|vertices|entities|features|attributes|content)$", re.IGNORECASE)  # one table for all


@dataclass(frozen=True)
class TypedTables:
    """The tables of a folder with several node types; ``where`` is what messages call a table."""

    nodes: Mapping[str, pa.Table]  # node type → table
    edges: Mapping[str, pa.Table]  # where → table
    where: Mapping[str, str]  # node type → where
    ignored: list[str]
    empty: list[str]  # files without rows


@dataclass(frozen=True)
class TypedEnds:
    """The two columns of an edge table, and the node types that their names refer to."""

    columns: tuple[str, str]
    types: tuple[str | None, str | None]  # None: the values tell


def type_of_file(file: Path) -> str:
    """``users`` for users.csv, nodes_users.csv and users-nodes.parquet."""
    name = file.name.split(".")[0]
    return re.sub(r"(?i)^nodes?[\s_-]+|[\s_-]+nodes?$", "", name)


def referred_type(column: str, types: Collection[str]) -> str | None:
    """The node type that a column is named after: ``users`` for user_id, userId, user, from_user_id."""
    words = words_of(column)
    if words[-1:] == ["id"]:
        words = words[:-1]
    elif words and words[-1].endswith("id"):  # userid
        words = [*words[:-1], words[-1].removesuffix("id")]
    for node_type in types:
        wanted = words_of(node_type)
        last = words[-len(wanted) :]
        if wanted and len(last) == len(wanted) and all(map(_is_same_word, last, wanted)):
            return node_type
    return None


def sort_tables(
    tables: Mapping[Path, pa.Table], fitted_types: Collection[str] = (), empty: list[str] | None = None
) -> TypedTables:
    """Tell node tables from edge tables. With ``fitted_types``, only tables with these names list nodes.

    A table of edges is called so, or has the columns of two ends and no id of its own. A table of nodes is called so,
    or the edges refer to it by name; if they have a source and a target, any table with an id lists nodes.
    """
    types = {file: type_of_file(file) for file in tables if not EDGE_FILES.search(file.name)}
    if fitted_types:
        known = {file: referred_type(name, fitted_types) for file, name in types.items()}
        types = {file: name for file, name in known.items() if name is not None}
    edges = {file: table for file, table in tables.items() if _lists_edges(file, table, types, tables)}
    referred = {referred_type(column, types.values()) for table in edges.values() for column in table.column_names}
    by_value = any(_has_source_and_target(table) for table in edges.values())
    by_value = by_value and not any(ALL_TYPES.match(file.name.split(".")[0]) for file in tables)
    nodes = {}
    for file, node_type in types.items():
        called_nodes = bool(fitted_types) or NODE_FILES.search(file.name) or node_type in referred
        if file not in edges and (called_nodes or (by_value and _has_own_id(tables[file], node_type))):
            nodes[node_type] = file
    ignored = [file.name for file in tables if file not in edges and file not in nodes.values()]
    return TypedTables(
        {node_type: tables[file] for node_type, file in nodes.items()},
        {file.name: table for file, table in edges.items()},
        {node_type: file.name for node_type, file in nodes.items()},
        ignored,
        empty or [],
    )


def find_typed_ends(table: pa.Table, types: Collection[str], options: ReadOptions, where: str) -> TypedEnds:
    """The columns given by the user, else a source and a target, else two columns named after types, else two ids."""
    given = [column for column in (options.source, options.target) if column in table.column_names]
    usual = (
        [find_column(table, names) for names in (SOURCE_NAMES, TARGET_NAMES)] if _has_source_and_target(table) else []
    )
    named = [column for column in table.column_names if referred_type(column, types)]
    ids = [column for column in table.column_names if column.lower() != "id" and column.lower().endswith("id")]
    only = table.column_names if table.num_columns == 2 else []
    candidates = ([*given, *(name for name in rest if name not in given)] for rest in (usual, named, ids, only))
    columns = next((found[:2] for found in candidates if len(found) >= 2), [])
    if not columns:
        raise UserError(
            f"The columns of {where} do not tell which nodes its edges link; name two of them after the node tables, "
            "such as user_id and item_id, or source and target."
        )
    source, target = str(columns[0]), str(columns[1])
    return TypedEnds((source, target), (referred_type(source, types), referred_type(target, types)))


def own_id_column(table: pa.Table, node_type: str) -> str | None:
    """The column of a node table that is named after its type: user_id in users.csv."""
    named = [column for column in table.column_names if referred_type(column, [node_type])]
    return next((column for column in named if column.lower().endswith("id")), None)


def _lists_edges(file: Path, table: pa.Table, types: Mapping[Path, str], tables: Mapping[Path, pa.Table]) -> bool:
    if EDGE_FILES.search(file.name):
        return True
    others = [node_type for other, node_type in types.items() if other != file]
    n_named = sum(referred_type(column, others) is not None for column in table.column_names)
    n_ids = sum(column.lower().endswith("id") for column in table.column_names)
    if n_named < 2 and not (n_named == 1 and n_ids == 2) and not _has_source_and_target(table):
        return False
    node_type = types.get(file)
    if node_type is None or not _has_own_id(table, node_type):
        return True
    # Ratings may have a column of ids too. A table of nodes is called so, or others refer to it.
    referring = (column for other, cells in tables.items() if other != file for column in cells.column_names)
    return not NODE_FILES.search(file.name) and not any(referred_type(column, [node_type]) for column in referring)


def _has_own_id(table: pa.Table, node_type: str) -> bool:
    return find_column(table, ID_NAMES) is not None or own_id_column(table, node_type) is not None


def _has_source_and_target(table: pa.Table) -> bool:
    return find_column(table, SOURCE_NAMES) is not None and find_column(table, TARGET_NAMES) is not None


def _is_same_word(a: str, b: str) -> bool:
    """Whether two words are equal, or one is the plural of the other."""
    return bool(_singulars(a) & _singulars(b))


def _singulars(word: str) -> set[str]:
    """The word, and what it may be the plural of: category, movie, person."""
    endings = {"s": "", "es": "", "ies": "y"}
    found = {word.removesuffix(end) + rest for end, rest in endings.items() if word.endswith(end)}
    return {word, *found, *(["person"] if word == "people" else [])}
