"""Writing vectors in common file formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv

from afgrl.data.leftovers import remove, remove_leftovers, temporary_path
from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.ops.storage import empty_rows
from afgrl.runs.files import replace_file, replace_files, save_npy, save_npz, save_tables, write_error
from afgrl.runs.readers import check, read_row_groups, read_schema, reading, row_group_sizes

GROUP_ROWS = 65_536  # of a Parquet file that are written and read at once
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet evaluates a cell that starts with one of these


def write_vectors(file: Path, ids: np.ndarray, vectors: np.ndarray, format: str = "parquet") -> int:
    """Write vectors [n, d] with their ids [n]. Returns how many ids were changed; only ``csv`` changes any.

    ``parquet`` and ``lance``: columns ``id`` and ``embedding``, a fixed-size list. ``csv``: columns ``id``, ``e0``,
    ``e1`` …; an id that a spreadsheet would evaluate as a formula is prefixed with an apostrophe. ``npz``: arrays
    ``ids`` and ``embedding``. ``npy``: the vectors, with the ids one per line in ``FILE.ids.txt``.
    """
    check_format(format)
    if vectors.ndim != 2 or len(ids) != len(vectors):
        raise UserError(f"The vectors have the shape {vectors.shape}, but there are {len(ids):,} ids.")
    return FORMATS[format](file, ids, np.ascontiguousarray(vectors, dtype=np.float32)) or 0


def check_format(format: str) -> None:
    """Fail before the work, not after it."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)


def write_parquet(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    """Columns ``id`` and ``embedding``, a fixed-size list."""
    starts = range(0, max(len(vectors), 1), GROUP_ROWS)
    write_row_groups(file, ids, (vectors[first : first + GROUP_ROWS] for first in starts))


def write_row_groups(file: Path, ids: np.ndarray, blocks: Iterable[np.ndarray]) -> None:
    """The same from blocks of vectors in the order of the ids: each becomes a row group, so that only one of them is
    in memory."""
    replace_file(file, lambda path: save_tables(path, _tables(ids, blocks)))


def _tables(ids: np.ndarray, blocks: Iterable[np.ndarray]) -> Iterator[pa.Table]:
    names, first = pa.array(ids), 0
    for block in blocks:
        yield pa.table({"id": names.slice(first, len(block)), "embedding": vector_column(block)})
        first += len(block)


def vector_column(vectors: np.ndarray) -> pa.Array:
    """[n, d] as n lists of a fixed size."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def read_parquet(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The ids and the vectors, which are in memory once, or in a file (``ops.storage``): one row group after the other
    is read into its place."""
    ids, filled = read_ids(file), 0
    vectors: np.ndarray = empty_rows(len(ids), vector_width(file), torch.device("cpu")).numpy()
    for block in vector_groups(file):
        vectors[filled : filled + len(block)] = block
        filled += len(block)
    with reading(file):
        check(filled == len(ids), f"it has {len(ids):,} ids, but {filled:,} vectors")
    return ids, vectors


def read_ids(file: Path) -> np.ndarray:
    """The ids alone, [n]."""
    columns = [table["id"].combine_chunks() for table in read_row_groups(file, ["id"])]
    with reading(file):
        check(sum(map(len, columns)) > 0 and not any(column.null_count for column in columns), "it has no ids")
        ids: np.ndarray = pa.chunked_array(columns).to_numpy()
        return ids


def vector_groups(file: Path) -> Iterator[np.ndarray]:
    """The vectors in the order of the ids, one row group in memory at a time: [rows, d] each, read-only."""
    for table in read_row_groups(file, ["embedding"]):
        with reading(file):
            block = column_vectors(table["embedding"], copied=False)
        yield block


def read_vectors(file: Path, rows: np.ndarray) -> np.ndarray:
    """The vectors with these row numbers, in their order: [len(rows), d]. Other row groups are not read."""
    ends = np.cumsum(row_group_sizes(file))
    group_of = np.searchsorted(ends, rows, side="right")
    chosen = np.empty((len(rows), vector_width(file)), dtype=np.float32)
    groups = np.unique(group_of).tolist()
    for group, table in zip(groups, read_row_groups(file, ["embedding"], groups), strict=True):
        with reading(file):
            block = column_vectors(table["embedding"], copied=False)
        wanted = group_of == group
        chosen[wanted] = block[rows[wanted] - ends[group] + len(block)]
    return chosen


def vector_width(file: Path) -> int:
    """The number of columns of the vectors."""
    with reading(file):
        kind = read_schema(file).field("embedding").type
        check(pa.types.is_fixed_size_list(kind), f"its vectors are {kind}")
        return int(kind.list_size)


def column_vectors(column: pa.ChunkedArray, *, copied: bool = True) -> np.ndarray:
    """[n, d] from lists of a fixed size, read-only unless ``copied``; to be used inside ``reading``."""
    kind = column.type
    check(pa.types.is_fixed_size_list(kind) and pa.types.is_float32(kind.value_type), f"its vectors are {kind}")
    check(column.null_count == 0, "a vector is missing")
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors: np.ndarray = flat.reshape(-1, kind.list_size)
    return vectors.copy() if copied else vectors


def _write_csv(file: Path, ids: np.ndarray, vectors: np.ndarray) -> int:
    names, changed = formula_safe(ids)
    columns = {"id": pa.array(names)} | {f"e{i}": pa.array(column) for i, column in enumerate(vectors.T)}
    replace_file(file, lambda path: _save_csv(path, pa.table(columns)))
    return changed


def _save_csv(path: Path, table: pa.Table) -> None:
    with open(path, "wb") as file:
        csv.write_csv(table, file)


def formula_safe(ids: np.ndarray) -> tuple[np.ndarray, int]:
    """Ids that a spreadsheet shows as they are, and how many were changed; numbers are never changed."""
    if ids.dtype.kind in "iu":
        return ids, 0
    text = as_text(ids)
    risky = np.array([name.startswith(FORMULA) for name in text], dtype=bool)
    return np.where(risky, "'" + text, text), int(risky.sum())


def _write_npy(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    text = as_text(ids)
    broken = next((name for name in text if len(name.splitlines()) > 1 or name != name.strip("\r\n")), None)
    if broken is not None:
        raise UserError(f"The id {broken!r} spans several lines, which npy cannot store; use parquet, csv or npz.")
    lines = "".join(f"{name}\n" for name in text)
    beside = file.with_name(file.name + ".ids.txt")
    replace_files(
        {
            beside: lambda path: path.write_text(lines, encoding="utf-8"),
            file: lambda path: save_npy(path, vectors),
        }
    )


def _write_npz(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    plain = ids if ids.dtype.kind in "iu" else ids.astype(str)  # an object array would be pickled
    replace_file(file, lambda path: save_npz(path, {"ids": plain, "embedding": vectors}))


def _write_lance(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    try:
        import lance
    except ImportError:
        raise UserError("The format 'lance' needs lance: pip install 'afgrl[lance]'.") from None
    remove_leftovers(file.parent, file.name.__eq__)
    temporary = temporary_path(file)
    try:
        lance.write_dataset(pa.table({"id": pa.array(ids), "embedding": vector_column(vectors)}), str(temporary))
        remove(file)  # a Lance dataset is a folder, which a rename cannot replace
        os.replace(temporary, file)
    except OSError as error:
        raise write_error(error, file) from error
    finally:
        remove(temporary)


FORMATS: dict[str, Callable[[Path, np.ndarray, np.ndarray], int | None]] = {
    "parquet": write_parquet,
    "csv": _write_csv,
    "npy": _write_npy,
    "npz": _write_npz,
    "lance": _write_lance,
}
