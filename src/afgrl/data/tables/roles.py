"""Which column of the node table holds the ids, and which two of the edge table the ends of the edges.

The values decide where there are edges: their ends are ids of nodes. Names and roles of columns decide the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.tables.cells import is_date_type, is_text_type, is_unique
from afgrl.data.tables.column_names import (
    SOURCE_NAMES,
    TARGET_NAMES,
    find_column,
    has_no_header,
    is_called_id,
    is_declined,
    is_unnamed,
    require_column,
)
from afgrl.data.tables.header import is_name_of_ends
from afgrl.data.tables.id_column import MAX_COLUMNS, IdCandidates, id_candidates
from afgrl.data.tables.ids import ids_as_text, row_numbers
from afgrl.data.tables.numbers import MIN_SHARE, detect_format, has_fractions
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

MAX_ROWS = 100_000  # of the edge table whose values are compared with ids
MIN_MATCH = 0.5  # share of the ends that are ids of nodes
MAX_COMPARED = 10  # columns of an edge table that are compared with each other
MIN_COMMON_NUMBERS = 0.25  # share of all numbers of two columns that both have
MAX_NUMBER_COLUMNS = 4  # two ends that are numbers, and perhaps a weight and a time


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
    """The id column of the node table, None if row numbers are the ids, and the source and target columns of the edge
    table. ``feature_columns`` are known to be features, so none of them is the id."""
    ends = None if edges is None else _ends_by_name(edges, options, names.edges)
    id_column = None
    if nodes is not None:
        sample = None if edges is None else edges.slice(0, MAX_ROWS)
        id_column, found = _find_id(nodes, sample, ends, options, report, names, feature_columns)
        ends = ends and ends.completed(found)
    if edges is None or ends is None:
        return id_column, None
    return id_column, _complete_ends(edges, ends, report, names.edges)


def looks_like_edges(table: pa.Table, options: ReadOptions) -> bool:
    """Whether a table whose name says nothing is one of edges."""
    named = find_column(table, SOURCE_NAMES) is not None and find_column(table, TARGET_NAMES) is not None
    if table.num_columns == 2 or named or (has_no_header(table) and _starts_with_an_edge(table)):
        return True
    if options.id or options.name or options.label or options.columns:  # what only a table of nodes has
        return False
    ends = _ends_of_each_other(table)
    if not ends:
        return False
    rest = table.drop_columns(ends).slice(0, MAX_ROWS)
    identifying = [name for name in id_candidates(rest, ()).identifying if not is_unnamed(name)]
    return not any(is_called_id(name) or _kind_of_ids(rest[name]) == "words" for name in identifying)


def refers_to(edges: pa.Table, nodes: pa.Table) -> bool:
    """Whether two columns of one table hold ids of the other."""
    sample, ends = edges.slice(0, MAX_ROWS), Ends(find_column(edges, SOURCE_NAMES), find_column(edges, TARGET_NAMES))
    return any(_match(nodes[name], sample, ends)[0] >= MIN_MATCH for name in id_candidates(nodes, ()).in_order)


def _starts_with_an_edge(table: pa.Table) -> bool:
    """Whether the first row is two integers, and perhaps a weight and a time."""
    n_fitting = 2 <= table.num_columns <= MAX_NUMBER_COLUMNS
    return n_fitting and all(str(table[place][0]).strip().isdigit() for place in (0, 1))


def _ends_of_each_other(table: pa.Table) -> list[str]:
    """The only two columns whose values are ids of each other; none if there are several such pairs.

    Numbers may be equal by accident, so only those of the first two columns of a narrow table count, if they are called
    like ends of edges. A table with more rows than pairs of values has categories.
    """
    names = _possible_ends(table)
    columns = {name: table[name].slice(0, MAX_ROWS) for name in names[:MAX_COMPARED]}
    kinds = {name: _kind_of_ids(column) for name, column in columns.items()}
    values = {name: ids_as_text(column).unique().drop_null() for name, column in columns.items() if kinds[name]}
    found = []
    for pair in combinations(values, 2):
        are_numbers = kinds[pair[0]] == "numbers"
        if kinds[pair[0]] != kinds[pair[1]]:
            continue
        if are_numbers and (len(names) > MAX_NUMBER_COLUMNS or not all(map(is_name_of_ends, pair))):
            continue
        first, second = (values[name] for name in pair)
        n_common = pc.sum(pc.is_in(first, value_set=second)).as_py() or 0
        n_all = len(first) + len(second) - n_common
        needed = MIN_COMMON_NUMBERS * n_all if are_numbers else MIN_MATCH * min(len(first), len(second))
        if n_common and n_common >= needed and min(table.num_rows, MAX_ROWS) <= n_all**2:
            found.append(list(pair))
    is_clear = len(found) == 1 and (found[0] == names[:2] or kinds[found[0][0]] == "words")
    return found[0] if is_clear else []


def _kind_of_ids(column: pa.ChunkedArray) -> Literal["numbers", "words"] | None:
    """None for fractions, dates and the like."""
    number_format, share = detect_format(column)
    if is_date_type(column.type) or has_fractions(column):
        return None
    if share < MIN_SHARE:
        return "words" if is_text_type(column.type) else None
    return "numbers" if number_format == "number" else None


def _find_id(
    nodes: pa.Table, edges: pa.Table | None, ends: Ends | None, options: ReadOptions, report: IngestReport,
    names: TableNames, feature_columns: Collection[str],
) -> tuple[str | None, list[str]]:  # fmt: skip
    """The id column, None for row numbers, and the columns of the edges' ends if they were unknown."""
    rows = {None: row_numbers(nodes.num_rows)}
    if is_declined(nodes, options.id):
        report.info(f"Node ids: row numbers of {names.nodes}, from 0.")
        return None, _best_match(rows, edges, ends)[1]
    if options.id is not None:
        given = require_column(nodes, options.id, names.nodes)
        report.info(f"Node ids: column {given!r} of {names.nodes}.")
        return given, _best_match({given: nodes[given]}, edges, ends)[1]
    candidates = id_candidates(nodes, feature_columns)
    matched, found = _best_match({name: nodes[name] for name in candidates.in_order}, edges, ends)
    if matched is None and edges is not None:
        share, found_rows = _match(rows[None], edges, ends) if ends else (0.0, [])
        if share < 1 and not candidates.identifying:
            raise UserError(
                f"No column of {names.nodes} has the ids that {names.edges} refers to; choose the id column with --id: "
                f"{first_few(nodes.column_names, 10)}."
            )
        if share == 1:
            _report_row_numbers(candidates, report, names.nodes)
            return None, found_rows
    chosen = matched or next(iter(candidates.identifying), None)
    if chosen is None:
        _report_row_numbers(candidates, report, names.nodes)
    else:
        second = next((name for name in candidates.identifying if name != chosen), None)
        instead = "" if second is None else f"; next best: {second!r} (choose with --id)"
        report.info(f"Node ids: column {chosen!r} of {names.nodes}{instead}.")
    return chosen, found


def _report_row_numbers(candidates: IdCandidates, report: IngestReport, where: str) -> None:
    differing = first_few(candidates.measurements)
    but = f" ({differing}: all different, but neither names nor codes)" if differing else ""
    report.info(f"Node ids: row numbers of {where}, from 0; --id chooses a column{but}.")


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


def _best_match(
    candidates: Mapping[Any, pa.ChunkedArray], edges: pa.Table | None, ends: Ends | None
) -> tuple[Any, list[str]]:
    """The first candidate that contains most of the edges' ends, and the columns of these ends if they were unknown;
    without a match, None."""
    best_share, best, best_ends = 0.0, None, list[str]()
    if edges is None or ends is None:
        return best, best_ends
    for name, column in candidates.items():
        share, found = _match(column, edges, ends)
        if share > best_share:
            best_share, best, best_ends = share, name, found
        if best_share >= MIN_MATCH:
            break
    return best, best_ends


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
    """Two columns of ids of each other, else the first columns that are not fractions and not a running number of the
    edges, if two are left."""
    of_each_other = [] if any(ends) else _ends_of_each_other(table)
    if of_each_other:
        return of_each_other
    possible = [name for name in _possible_ends(table) if name not in ends]
    likely = [name for name in possible if not has_fractions(table[name])]
    if len(likely) > 2 and is_called_id(likely[0]) and table.num_rows > 1 and is_unique(table[likely[0]]):
        likely = likely[1:]
    return likely if len(likely) >= 2 else possible
