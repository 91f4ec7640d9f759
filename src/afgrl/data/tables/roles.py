"""Which column of the node table holds the ids, and which two of the edge table the ends of the edges.

Common names decide. Where they leave it open, the values do: the ends of edges are ids of nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.tables.cells import to_text
from afgrl.data.tables.column_names import (
    ID_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    find_column,
    is_unnamed,
    require_column,
)
from afgrl.data.tables.ids import ids_as_text
from afgrl.data.tables.numbers import detect_format, to_numbers
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

MAX_COLUMNS = 50  # columns whose values are compared,
MAX_ROWS = 100_000  # in this many rows of the edge table
MIN_MATCH = 0.5  # share of the ends that are ids of nodes


class TableNames(NamedTuple):
    """What messages call the two tables."""

    nodes: str = "the node table"
    edges: str = "the edge table"


class Ends(NamedTuple):
    """Columns of the edge table; None while unknown."""

    source: str | None
    target: str | None

    def completed(self, found: Sequence[str]) -> Ends:
        rest = iter(name for name in found if name not in self)
        return Ends(self.source or next(rest, None), self.target or next(rest, None))


def find_roles(
    nodes: pa.Table | None, edges: pa.Table | None, options: ReadOptions, report: IngestReport, names: TableNames,
    *, feature_columns: Collection[str] = (),
) -> tuple[str | None, tuple[str, str] | None]:  # fmt: skip
    """The id column of the node table, and the source and target columns of the edge table. ``feature_columns`` are
    known to be features, so none of them is the id."""
    ends = None if edges is None else _ends_by_name(edges, options, names.edges)
    id_column = None
    if nodes is not None:
        sample = None if edges is None else edges.slice(0, MAX_ROWS)
        given = None if options.id is None else require_column(nodes, options.id, names.nodes)
        candidates = _possible_ids(nodes, feature_columns) if given is None else [given]
        id_column, found = _best_match(nodes, sample, candidates, ends)
        id_column = id_column if given is None else given
        ends = ends and ends.completed(found)
        if id_column is None:
            raise UserError(
                f"No column of {names.nodes} has a different value in every row; choose the id column with --id: "
                f"{first_few(nodes.column_names, 10)}."
            )
        report.info(f"Node ids: column {id_column!r} of {names.nodes}.")
    if edges is None or ends is None:
        return id_column, None
    return id_column, _complete_ends(edges, ends, report, names.edges)


def _ends_by_name(table: pa.Table, options: ReadOptions, where: str) -> Ends:
    return Ends(
        require_column(table, options.source, where) if options.source else find_column(table, SOURCE_NAMES),
        require_column(table, options.target, where) if options.target else find_column(table, TARGET_NAMES),
    )


def _complete_ends(table: pa.Table, ends: Ends, report: IngestReport, where: str) -> tuple[str, str]:
    source, target = ends if all(ends) else ends.completed(_first_ends(table, ends))
    if source is None or target is None:
        only = next((name for name in table.column_names if not is_unnamed(name)), "")
        raise UserError(f"There is only one column, {only!r}, in {where}, but an edge needs a source and a target.")
    if source == target:
        raise UserError(f"The column {source!r} of {where} cannot be both the source and the target of an edge.")
    report.info(f"Edges: columns {source!r} and {target!r} of {where}.")
    return source, target


def _possible_ids(table: pa.Table, feature_columns: Collection[str]) -> Iterator[str]:
    """Columns that may be the id, in this order: common names; columns without repetition, those that end in "id"
    first; columns that end in "id" but repeat values; unnamed columns."""
    common = [name for name in (find_column(table, (known,)) for known in ID_NAMES) if name is not None]
    common = [name for name in common if name not in feature_columns]
    yield from common  # usually the first one matches, and no other column is read
    flat = (name for name in table.column_names if not pa.types.is_nested(table[name].type))
    rest = [name for name in flat if name not in common and name not in feature_columns]
    unique = [name for name in rest[:MAX_COLUMNS] if _is_unique(table[name])]
    called_id = [name for name in rest if _is_called_id(name)][:MAX_COLUMNS]
    order = [*(name for name in called_id if name in unique), *unique, *called_id]
    yield from sorted(dict.fromkeys(order), key=is_unnamed)  # a stable sort


def _best_match(
    nodes: pa.Table, edges: pa.Table | None, candidates: Iterable[str], ends: Ends | None
) -> tuple[str | None, list[str]]:
    """The first candidate that contains most of the edges' ends, and the columns of these ends if they were unknown;
    if no candidate matches, the first that can be an id."""
    best_share, best, best_ends = 0.0, None, list[str]()
    first = None
    for name in candidates:
        if first is None and (name.strip().lower() in ID_NAMES or _is_unique(nodes[name])):
            first = name
        if edges is None or ends is None:
            if first is not None:
                break
            continue
        share, found = _match(nodes[name], edges, ends)
        if share > best_share:
            best_share, best, best_ends = share, name, found
        if best_share >= MIN_MATCH:
            break
    return (first, []) if best is None else (best, best_ends)


def _match(column: pa.ChunkedArray, edges: pa.Table, ends: Ends) -> tuple[float, list[str]]:
    """The share of the ends that are values of the column (of both ends, the lower one), and the columns that match
    best where the ends are unknown."""
    known = ids_as_text(column).combine_chunks()
    if all(ends):
        return min(_share_known(edges[end], known) for end in ends if end), []
    shares = {name: _share_known(edges[name], known) for name in _possible_ends(edges)}
    likely = sorted(shares, key=lambda name: -shares[name])[:2]
    share = min((shares[name] for name in likely), default=0.0)
    return share, [name for name in shares if name in likely and share >= MIN_MATCH]


def _share_known(column: pa.ChunkedArray, known: pa.Array) -> float:
    try:
        text = pc.replace_substring_regex(ids_as_text(column), r"\.0$", "").drop_null()
    except (UserError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return 0.0
    return pc.sum(pc.is_in(text, value_set=known)).as_py() / len(text) if len(text) else 0.0


def _possible_ends(table: pa.Table) -> list[str]:
    names = [name for name in table.column_names if not is_unnamed(name) and not pa.types.is_nested(table[name].type)]
    return names[:MAX_COLUMNS]


def _first_ends(table: pa.Table, ends: Ends) -> list[str]:
    """The first columns that are not fractions and not a running number of the edges, if two are left."""
    possible = [name for name in _possible_ends(table) if name not in ends]
    likely = [name for name in possible if not _has_fractions(table[name])]
    if len(likely) > 2 and _is_called_id(likely[0]) and table.num_rows > 1 and _is_unique(table[likely[0]]):
        likely = likely[1:]
    return likely if len(likely) >= 2 else possible


def _is_called_id(name: str) -> bool:
    return name.strip().lower().endswith("id")


def _has_fractions(column: pa.ChunkedArray) -> bool:
    values = to_numbers(column, detect_format(column)[0])
    return bool((values[np.isfinite(values)] % 1 != 0).any())


def _is_unique(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    return len(to_text(column).unique()) == len(column)
