"""A table of edges → pairs of positions among the nodes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from afgrl.data.files.ids import known_cells, names_of
from afgrl.data.files.numbers import as_numbers, form_of
from afgrl.data.files.options import Options
from afgrl.data.files.roles import is_nameless, weight_column
from afgrl.data.notes import Notes, some
from afgrl.errors import UserError

DECIMAL = r"^(-?\d+)\.0$"  # as a table writes whole numbers in a column where one is missing
Ends = tuple[pa.ChunkedArray, pa.ChunkedArray]  # of each edge, as text
UNEQUAL = 1000.0  # times the median: a few such edges would drown all others


def ends_of(
    table: pa.Table, columns: tuple[str, str], own: pa.ChunkedArray | None, options: Options, notes: Notes, place: str
) -> tuple[Ends, np.ndarray | None]:
    """The two ends of each edge that counts, as text, and the edges' weights, if they have any."""
    weight = _weights(table, options, notes, place)
    keep = np.ones(table.num_rows, dtype=bool) if weight is None else weight > 0  # leaves out what is no number too
    ends = [known_cells(names_of(table[column]), but=own) for column in columns]
    whole = ~(ends[0].is_null().to_numpy() | ends[1].is_null().to_numpy())
    if not whole.all():
        first = (~whole).argmax() + 1
        notes.repaired(f"Edges of {place} that lack an end, and are left out: {(~whole).sum():,}, row {first} first.")
    kept = keep & whole
    first, second = (end.filter(pa.array(kept)) for end in ends)
    used = (*columns, weight_column(table, options, place))
    unused = [name for name in table.column_names if name not in used and not is_nameless(name)]
    if unused:
        notes.understood(f"Columns of {place} that count for nothing: {some(unused)}.")
    return _as_own(first, second, own, notes, place), None if weight is None else weight[kept]


def _weights(table: pa.Table, options: Options, notes: Notes, place: str) -> np.ndarray | None:
    """Of each row, NaN where there is none; None where rows have no weights."""
    column = weight_column(table, options, place)
    if column is None:
        return None
    weight = as_numbers(table[column], form_of(table[column])[0])
    counts = weight[weight > 0]
    if not len(counts):
        raise UserError(
            f"No edge of {place} has a weight above 0 in {column!r} (the first is {table[column][0].as_py()!r}); "
            "--weight none ignores them."
        )
    if len(counts) < len(weight):
        notes.repaired(
            f"Edges of {place} whose weight is no number above 0, and are left out: {len(weight) - len(counts):,}."
        )
    if len(counts) and (counts == counts[0]).all():
        notes.understood(
            f"The weights in {column!r} of {place} are all alike, so they make no difference but where an edge is "
            "there more than once."
        )
    elif len(counts):
        notes.understood(f"An edge of {place} counts by its weight in {column!r}, in units of their mean.")
        if counts.max() > UNEQUAL * np.median(counts):
            notes.suspicious(
                f"The largest weight in {column!r} of {place} is {counts.max() / np.median(counts):,.0f} times the "
                "median; logarithms of such weights often serve better."
            )
    return weight


def _as_own(
    first: pa.ChunkedArray, second: pa.ChunkedArray, own: pa.ChunkedArray | None, notes: Notes, place: str
) -> Ends:
    """Ids as the table of nodes writes them."""
    if own is None or not len(first) or pc.any(pc.ends_with(own, ".0")).as_py():
        return first, second
    whole_first, whole_second = (pc.replace_substring_regex(end, DECIMAL, r"\1") for end in (first, second))
    if not (whole_first.equals(first) and whole_second.equals(second)):
        notes.repaired(f"Ids of {place} that were written as decimals are read as whole numbers.")
    return whole_first, whole_second


def numbered(
    own: pa.ChunkedArray | None,
    ends: tuple[pa.ChunkedArray, pa.ChunkedArray] | None,
    notes: Notes,
    where: tuple[str, str],
    *,
    weighted: bool = False,
) -> tuple[pa.Array, np.ndarray]:
    """All ids, those of the table of nodes first, and the edges as positions among them."""
    own = pa.chunked_array([pa.array([], pa.string())]) if own is None else own
    if ends is None:
        return own.combine_chunks(), np.empty((2, 0), dtype=np.int64)
    both = pa.chunked_array([*ends[0].chunks, *ends[1].chunks], pa.string())
    occurring = both.unique()
    foreign = occurring.filter(pc.invert(pc.is_in(occurring, value_set=own.combine_chunks())))
    _note_foreign(own, occurring, foreign, notes, where)
    ids = pa.concat_arrays([own.combine_chunks(), foreign])
    edge_index = np.stack([pc.index_in(end, value_set=ids).to_numpy().astype(np.int64) for end in ends])
    _note_edges(edge_index, len(ids), notes, where[1], weighted=weighted)
    return ids, edge_index


def _note_foreign(
    own: pa.ChunkedArray, occurring: pa.Array, foreign: pa.Array, notes: Notes, where: tuple[str, str]
) -> None:
    if not len(own) or not len(foreign):
        return
    if len(foreign) == len(occurring):
        raise UserError(
            f"None of the ids in {where[1]} (such as {foreign[0].as_py()!r}) is in {where[0]} (which has such as "
            f"{own[0].as_py()!r}); --id, --source and --target say which columns hold them."
        )
    share = len(foreign) / (len(own) + len(foreign))
    sentence = (
        f"Nodes that occur only in {where[1]}, and have no columns: {len(foreign):,} ({share:.0%}), "
        f"{some(foreign.slice(0, 3).to_pylist())} first."
    )
    zeros = _but_for_zeros(foreign, own)
    if zeros:
        sentence += f" But for zeros in front, {zeros:,} of them are nodes of {where[0]}."
    (notes.suspicious if share > 0.2 or zeros else notes.repaired)(sentence)


def _but_for_zeros(foreign: pa.Array, own: pa.ChunkedArray) -> int:
    """How many ids would be known if 007 were 7."""
    bare, known = (pc.replace_substring_regex(ids, "^0+(.+)$", r"\1") for ids in (foreign, own.combine_chunks()))
    return int(pc.sum(pc.is_in(bare, value_set=known)).as_py() or 0)


def _note_edges(edge_index: np.ndarray, n: int, notes: Notes, where: str, *, weighted: bool) -> None:
    loops = edge_index[0] == edge_index[1]
    if loops.any():
        notes.repaired(f"Edges of {where} from a node to itself, and left out: {loops.sum():,}.")
    source, target = edge_index[:, ~loops]
    once = np.unique(source * n + target)
    if len(once) < len(source):
        rule = "whose weights are added" if weighted else "count once"
        notes.repaired(f"Edges of {where} that were there before, and {rule}: {len(source) - len(once):,}.")
    mirrored = np.isin(once % n * n + once // n, once, assume_unique=True).sum()
    if mirrored < len(once):
        notes.understood(f"Edges of {where} that go one way, and count in both directions: {len(once) - mirrored:,}.")
