"""Columns, tables and arrays on disk instead of in memory, for sources that are larger than it.

A file is mapped into memory and loses its name at once, so that the system removes it when the process ends, however it
ends; pages of it that are in memory are given back when others need them. Files that must keep a name while they are
used are in a folder with the number of the process, which the next process removes if this one was killed.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from afgrl.data.benchmarks.cache import cache_folder
from afgrl.data.leftovers import remove_leftovers, temporary_path
from afgrl.errors import UserError

BLOCK_ROWS = 1 << 17  # rows of a table that are in memory at once
PREFIX = "spill-"


@dataclass(frozen=True)
class Spill:
    """Where large columns, tables and arrays are stored."""

    folder: Path

    def column(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The same cells in a file."""
        one = pa.table({"cells": column})
        return self.table(one.schema, one.to_batches(max_chunksize=BLOCK_ROWS))["cells"]

    def table(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """The batches as a table in a file."""
        path = self.new_file()
        with open(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        _remove_name(path)
        return table

    def array(self, blocks: Iterable[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
        """The rows of the blocks as one array of float32 in a file. It may be written to; that does not change the
        file."""
        path = self.new_file()
        with open(path, "wb") as file:  # a full disk is an error here, but would end the process in a mapped array
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype=np.float32).data)
        mapped = np.memmap(path, np.float32, "c", shape=shape)
        _remove_name(path)
        return mapped

    def new_file(self) -> Path:
        return self.folder / secrets.token_hex(4)


@contextmanager
def spilling() -> Iterator[Spill]:
    """A folder for temporary files, in the folder of caches: AFGRL_CACHE chooses the disk."""
    parent = cache_folder() / "spill"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(parent, lambda name: name.startswith(PREFIX))
        folder = temporary_path(parent / f"{PREFIX}{secrets.token_hex(4)}")
        folder.mkdir()
    except OSError as error:
        raise UserError(
            f"Large tables need temporary files, but the folder {parent} is not writable ({error.strerror}); set "
            "AFGRL_CACHE to a writable folder."
        ) from None
    try:
        yield Spill(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def row_blocks(n: int, rows: int | None = None) -> Iterator[slice]:
    """0…n-1 in parts of ``rows``, or of as many as are in memory at once."""
    rows = rows or BLOCK_ROWS
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def _remove_name(path: Path) -> None:
    with suppress(OSError):  # Windows keeps the name of a mapped file; the folder is removed later
        path.unlink()
