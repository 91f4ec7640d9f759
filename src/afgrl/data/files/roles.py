"""Which column is which."""

from __future__ import annotations

import pyarrow as pa

from afgrl.data.files.kinds import as_text
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
NO_WEIGHT = "none"  # what a user says where such a column is no weight


def id_column(table: pa.Table, options: Options, notes: Notes, where: str) -> str:
    """The column that names the nodes: by its name, or the first without repetitions."""
    if options.id is not None:
        return _named(table, options.id, where)
    found = _known(table, IDS)
    if found is None:
        found = next((name for name in table.column_names if _could_be_ids(table[name])), None)
    if found is None:
        raise UserError(
            f"No column of {where} names its rows without repetition; --id says which one does, of {_all(table)}."
        )
    notes.understood(f"{found!r} of {where} names the nodes.")
    return found


def end_columns(table: pa.Table, options: Options, notes: Notes, where: str) -> tuple[str, str]:
    """The columns of the two ends of an edge: by their names, or the first two."""
    if table.num_columns < 2:
        raise UserError(f"{where} has one column, {table.column_names[0]!r}, but an edge has two ends.")
    source = _named(table, options.source, where) if options.source else _known(table, SOURCES)
    target = _named(table, options.target, where) if options.target else _known(table, TARGETS)
    if source is None or target is None:
        rest = [name for name in table.column_names if name not in (source, target)]
        source = source or rest.pop(0)
        target = target or rest.pop(0)
    if source == target:
        raise UserError(f"The column {source!r} of {where} cannot be both ends of an edge.")
    notes.understood(f"{source!r} and {target!r} of {where} are the ends of its edges.")
    return source, target


def has_ends(table: pa.Table, options: Options) -> bool:
    """Whether a table looks like one of edges."""
    if options.source or options.target:
        return True
    return table.num_columns == 2 or (_known(table, SOURCES) is not None and _known(table, TARGETS) is not None)


def weight_column(table: pa.Table, options: Options, where: str) -> str | None:
    if options.weight == NO_WEIGHT and NO_WEIGHT not in table.column_names:
        return None
    return _named(table, options.weight, where) if options.weight else _known(table, WEIGHTS)


def label_column(table: pa.Table, options: Options, notes: Notes, where: str) -> str | None:
    """The column that training never sees."""
    found = _named(table, options.label, where) if options.label else _known(table, LABELS)
    if found is not None:
        notes.understood(f"{found!r} of {where} is the label, which training never sees.")
    return found


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
