"""Which column is which."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.files.ids import names_of
from afgrl.data.files.kinds import as_text
from afgrl.data.files.numbers import as_numbers, form_of
from afgrl.data.files.options import Options
from afgrl.data.notes import Notes
from afgrl.errors import UserError

IDS = ("id", "node_id", "nodeid", "node", "key", "uid", "uuid", "index", "name", "vertex")
SOURCES = (
    "source",
    "src",
    "from",
    "u",
    "node1",
    "node_1",
    "id1",
    "id_1",
    "start",
    "head",
    "from_id",
    "source_id",
    "citing",
)
TARGETS = ("target", "dst", "to", "v", "node2", "node_2", "id2", "id_2", "end", "to_id", "target_id", "cited")
LABELS = ("label", "labels", "class", "y", "ground_truth")
WEIGHTS = ("weight", "weights", "w")
NO_COLUMN = "none"  # what a user says where a column with such a name is no weight, or no label
INDEX = "the index"  # of a table of pandas
HEADLESS = "column {}"  # names of the columns of a list without a header
MOST_LOOKED_AT = 50  # columns whose values are compared,
MOST_ROWS = 100_000  # in so many rows of the edges
ENOUGH = 0.5  # share of the ends that are names of nodes
FEWEST_ROWS = 20  # of which it can be said that most values differ


def columns_of(
    nodes: pa.Table | None, edges: pa.Table | None, options: Options, notes: Notes, where: tuple[str, str],
    *, taken: Collection[str] = (),
) -> tuple[str | None, tuple[str, str] | None]:  # fmt: skip
    """The column that names the nodes, and those of the two ends of an edge. ``taken`` are columns that a training made
    features of.

    Names decide where they are common ones. Where they leave it open, the values do: ends are names of nodes.
    """
    ends = None if edges is None else _told_ends(edges, options, where[1])
    some = None if edges is None else edges.slice(0, MOST_ROWS)
    id = None
    if nodes is not None:
        told = None if options.id is None else _named(nodes, options.id, where[0])
        id, found = _best_match(nodes, some, [told] if told is not None else _possible_ids(nodes, taken), ends)
        id = id if told is None else told
        ends = ends and _filled_in(ends, found)
        if id is None:
            raise UserError(
                f"No column of {where[0]} names its rows without repetition; --id says which one does, of "
                f"{_all(nodes)}."
            )
        notes.understood(f"{id!r} of {where[0]} names the nodes.")
    if edges is None or ends is None:
        return id, None
    source, target = ends if all(ends) else _filled_in(ends, _first_ends(edges, ends))
    if source is None or target is None:
        only = next((name for name in edges.column_names if not is_nameless(name)), "")
        raise UserError(f"{where[1]} has one column, {only!r}, but an edge has two ends.")
    if source == target:
        raise UserError(f"The column {source!r} of {where[1]} cannot be both ends of an edge.")
    notes.understood(f"{source!r} and {target!r} of {where[1]} are the ends of its edges.")
    return id, (source, target)


Ends = tuple[str | None, str | None]  # columns, None where one is not known yet


def _told_ends(table: pa.Table, options: Options, where: str) -> Ends:
    source = _named(table, options.source, where) if options.source else _known(table, SOURCES)
    target = _named(table, options.target, where) if options.target else _known(table, TARGETS)
    return source, target


def _filled_in(ends: Ends, found: Sequence[str]) -> Ends:
    """What is not known yet taken from ``found``."""
    rest = iter(name for name in found if name not in ends)
    return ends[0] or next(rest, None), ends[1] or next(rest, None)


def _possible_ids(table: pa.Table, taken: Collection[str]) -> Iterator[str]:
    """The columns that may name the nodes, the likeliest first: those with a common name, those without repetition, of
    these the ones that are called ids, and at last what is called an id but repeats itself, or has no name at all."""
    common = [name for name in (_known(table, (known,)) for known in IDS) if name is not None and name not in taken]
    yield from common  # mostly one, and no other column is looked at
    plain = (name for name in table.column_names if not pa.types.is_nested(table[name].type))
    rest = [name for name in plain if name not in common and name not in taken]
    single = [name for name in rest[:MOST_LOOKED_AT] if _could_be_ids(table[name])]
    called = [name for name in rest if name.strip().lower().endswith("id")][:MOST_LOOKED_AT]
    order = [*(name for name in called if name in single), *single, *called]
    yield from sorted(dict.fromkeys(order), key=is_nameless)  # which keeps the order of all others


def _best_match(
    nodes: pa.Table, edges: pa.Table | None, candidates: Iterable[str], ends: Ends | None
) -> tuple[str | None, list[str]]:
    """The first candidate whose values are most of what the ends hold, and columns of ends found on the way; without
    any such, the first candidate that can be one."""
    best: tuple[float, str | None, list[str]] = (0.0, None, [])
    first = None
    for name in candidates:
        if first is None and (name.strip().lower() in IDS or _could_be_ids(nodes[name])):
            first = name
        if edges is None or ends is None:
            if first is not None:
                break
        else:
            known = names_of(nodes[name]).combine_chunks()
            shares = {end: _share(edges[end], known) for end in (ends if all(ends) else _possible_ends(edges)) if end}
            likely = sorted(shares, key=lambda end: -shares[end])[:2] if not all(ends) else []
            share = min((shares[end] for end in likely or shares), default=0.0)
            if share > best[0]:
                best = share, name, [end for end in shares if end in likely and share >= ENOUGH]
            if best[0] >= ENOUGH:
                break
    return (first, []) if best[1] is None else (best[1], best[2])


def _share(column: pa.ChunkedArray, known: pa.Array) -> float:
    """Of a column's cells, those that name a node."""
    try:
        text = pc.replace_substring_regex(names_of(column), r"\.0$", "").drop_null()
    except (UserError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return 0.0
    return pc.sum(pc.is_in(text, value_set=known)).as_py() / len(text) if len(text) else 0.0


def _possible_ends(table: pa.Table) -> list[str]:
    names = [name for name in table.column_names if not is_nameless(name) and not pa.types.is_nested(table[name].type)]
    return names[:MOST_LOOKED_AT]


def _first_ends(table: pa.Table, ends: Ends) -> list[str]:
    """The first two columns; where there are more, without one that numbers the edges, and without fractions."""
    possible = [name for name in _possible_ends(table) if name not in ends]
    likely = [name for name in possible if not _is_fraction(table[name])]
    if len(likely) > 2 and _numbers_rows(table, likely[0]):
        likely = likely[1:]
    return likely if len(likely) >= 2 else possible


def _numbers_rows(table: pa.Table, name: str) -> bool:
    return name.strip().lower().endswith("id") and table.num_rows > 1 and _could_be_ids(table[name])


def _is_fraction(column: pa.ChunkedArray) -> bool:
    values = as_numbers(column, form_of(column)[0])
    return bool((values[np.isfinite(values)] % 1 != 0).any())


def is_nameless(name: str) -> bool:
    """The index of a table of pandas, which has no name in a file."""
    return re.fullmatch(rf"\s*|Unnamed: \d+|{INDEX}", name) is not None


def has_ends(table: pa.Table, options: Options) -> bool:
    """Whether a table looks like one of edges."""
    if options.source or options.target:
        return True
    named = _known(table, SOURCES) is not None and _known(table, TARGETS) is not None
    return table.num_columns == 2 or named or (is_headless(table) and _begins_with_an_edge(table))


def _begins_with_an_edge(table: pa.Table) -> bool:
    """Of a list without a header: two whole numbers, perhaps a weight, perhaps a time."""
    return table.num_columns <= 4 and all(str(table[place][0]).strip().isdigit() for place in (0, 1))


def is_headless(table: pa.Table) -> bool:
    return table.column_names[0] == HEADLESS.format(1)


def weight_column(table: pa.Table, options: Options, where: str) -> str | None:
    if options.weight == NO_COLUMN and NO_COLUMN not in table.column_names:
        return None
    if options.weight:
        return _named(table, options.weight, where)
    third = HEADLESS.format(3)  # after the two ends, in a list without a header
    return third if is_headless(table) and third in table.column_names else _known(table, WEIGHTS)


def label_column(table: pa.Table, options: Options, notes: Notes, where: str) -> str | None:
    """The column that training never sees."""
    if options.label == NO_COLUMN and NO_COLUMN not in table.column_names:
        return None
    found = _named(table, options.label, where) if options.label else _known(table, LABELS)
    if found is None:
        return None
    if not options.label and not _could_be_classes(table[found]):
        notes.understood(f"{found!r} of {where} is no label, for most of its values differ; --label says otherwise.")
        return None
    notes.understood(f"{found!r} of {where} is the label, which training never sees.")
    return found


def _could_be_classes(column: pa.ChunkedArray) -> bool:
    try:
        known = names_of(column).drop_null()
    except (UserError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return len(known) < FEWEST_ROWS or 2 * len(known.unique()) <= len(known)


def _known(table: pa.Table, names: tuple[str, ...]) -> str | None:
    own = {name.strip().lower(): name for name in reversed(table.column_names)}
    return next((own[name] for name in names if name in own), None)


def _named(table: pa.Table, name: str, where: str) -> str:
    if name not in table.column_names:
        raise UserError(f"{where} has no column {name!r}; it has {_all(table)}.")
    return name


def _could_be_ids(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    return len(as_text(column).unique()) == len(column)


def _all(table: pa.Table, most: int = 10) -> str:
    more = f" and {table.num_columns - most:,} more" if table.num_columns > most else ""
    return ", ".join(repr(name) for name in table.column_names[:most]) + more
