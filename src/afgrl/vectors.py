"""Vectors in the formats other programs read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.writing import replace_file, save_npy, save_npz

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet compute a cell instead of showing it


def write(file: Path, ids: np.ndarray, vectors: np.ndarray, format: str = "parquet") -> int:
    """Write vectors [n, d] with their ids [n]; how many ids had to be changed, which only ``csv`` ever does.

    ``parquet`` and ``lance``: columns ``id`` and ``embedding``, a list of one fixed size. ``csv``: ``id``, ``e0``,
    ``e1`` …; an id that a spreadsheet would compute gets an apostrophe before it. ``npz``: arrays ``ids`` and
    ``embedding``. ``npy``: the vectors alone, and the ids a line each in ``FILE.ids.txt``.
    """
    check_format(format)
    if vectors.ndim != 2 or len(ids) != len(vectors):
        raise UserError(f"There are {len(ids)} ids, but the vectors have the shape {vectors.shape}.")
    return FORMATS[format](file, ids, np.ascontiguousarray(vectors, dtype=np.float32)) or 0


def check_format(format: str) -> None:
    """Before the work, not after it."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)


def write_parquet(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    """A table of ``id`` and ``embedding``, a list of one fixed size."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    columns = {"id": pa.array(ids), "embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
    replace_file(file, lambda path: pq.write_table(pa.table(columns), path))


def read_parquet(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The ids and the vectors."""
    table = pq.read_table(file).combine_chunks()
    column = table["embedding"].chunk(0)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return table["id"].to_numpy(), flat.reshape(-1, column.type.list_size).copy()  # pyarrow's own is read-only


def _write_csv(file: Path, ids: np.ndarray, vectors: np.ndarray) -> int:
    names, changed = formula_safe(ids)
    columns = {"id": pa.array(names)} | {f"e{i}": pa.array(column) for i, column in enumerate(vectors.T)}
    replace_file(file, lambda path: csv.write_csv(pa.table(columns), path))
    return changed


def formula_safe(ids: np.ndarray) -> tuple[np.ndarray, int]:
    """The ids as a spreadsheet shows them, and how many of them differ; numbers compute nothing and stay."""
    if ids.dtype.kind in "iu":
        return ids, 0
    text = as_text(ids)
    risky = np.array([name.startswith(FORMULA) for name in text], dtype=bool)
    return np.where(risky, "'" + text, text), int(risky.sum())


def _write_npy(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    text = as_text(ids)
    broken = next((name for name in text if len(name.splitlines()) > 1 or name != name.strip("\r\n")), None)
    if broken is not None:
        raise UserError(f"The id {broken!r} is no single line, as npy would need it; parquet, csv and npz can hold it.")
    lines = "".join(f"{name}\n" for name in text)
    beside = file.with_name(file.name + ".ids.txt")
    replace_file(beside, lambda path: path.write_text(lines, encoding="utf-8"))
    replace_file(file, lambda path: save_npy(path, vectors))


def _write_npz(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    plain = ids if ids.dtype.kind in "iu" else ids.astype(str)  # objects would be pickled
    replace_file(file, lambda path: save_npz(path, {"ids": plain, "embedding": vectors}))


def _write_lance(file: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    try:
        import lance
    except ImportError:
        raise UserError("The format 'lance' needs lance: pip install pylance.") from None
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        lance.write_dataset(pa.table({"id": pa.array(ids), "embedding": flat}), str(temporary))
        if file.is_dir():  # a lance dataset is a folder, which a rename does not replace
            shutil.rmtree(file)
        os.replace(temporary, file)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


FORMATS: dict[str, Callable[[Path, np.ndarray, np.ndarray], int | None]] = {
    "parquet": write_parquet,
    "csv": _write_csv,
    "npy": _write_npy,
    "npz": _write_npz,
    "lance": _write_lance,
}
