"""Atomic writes: a file is complete or absent, also after a power loss. Every byte goes through a file that Python
opened, so that a full disk is an ``OSError`` with its reason, whichever library formats the bytes."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from afgrl.data.leftovers import remove_leftovers, temporary_path
from afgrl.errors import AfgrlError

Write = Callable[[Path], Any]  # writes a file of that name
CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # some network file systems; a folder that is write-only


class StorageError(AfgrlError):
    """The disk failed during training, and the run can be resumed from its last checkpoint."""


def replace_file(final: Path, write: Write) -> None:
    """Write to a temporary name in the same folder, flush it to the disk, then rename."""
    replace_files({final: write})


def replace_files(writes: Mapping[Path, Write]) -> None:
    """Replace files of one folder that belong together.

    All are written and flushed to the disk before the first is renamed: a disk may otherwise store the new name before
    the bytes, and after a power loss the file would be empty. Only one rename can be atomic, so the last file is
    removed before the others are renamed: it is never beside files that do not belong to it.
    """
    *others, last = writes
    remove_leftovers(last.parent, {final.name for final in writes}.__contains__)
    current = last
    try:
        for current, write in writes.items():
            write(temporary_path(current))
            flush_to_disk(temporary_path(current))
        current = last
        if others:
            last.unlink(missing_ok=True)
        for current in writes:
            os.replace(temporary_path(current), current)
        flush_to_disk(last.parent)  # the new names
    except OSError as error:
        raise write_error(error, current) from error
    finally:
        for final in writes:
            with suppress(OSError):  # the first error is the one to report
                temporary_path(final).unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power loss, as far as its file system can tell."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":  # cannot flush folders
        return
    try:
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_FLUSH:
            raise


def write_error(error: OSError, file: Path) -> OSError:
    """The error with the name of the file that the user knows; some libraries leave it out."""
    number = error.errno or errno.EIO
    return OSError(number, os.strerror(number), str(file))


def write_json(file: Path, value: Any) -> None:
    text = json.dumps(value, indent=1) + "\n"
    replace_file(file, lambda path: path.write_text(text, encoding="utf-8"))


def write_table(file: Path, table: pa.Table) -> None:
    replace_file(file, lambda path: save_table(path, table))


def save_table(path: Path, table: pa.Table) -> None:
    with open(path, "wb") as file:
        pq.write_table(table, file, write_page_checksum=True)  # read_table compares it


def save_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Tables with the same columns as the row groups of one file."""
    remaining = iter(tables)
    first = next(remaining)
    with open(path, "wb") as file, pq.ParquetWriter(file, first.schema, write_page_checksum=True) as writer:
        for table in chain([first], remaining):
            writer.write_table(table)


def save_torch(path: Path, value: Any) -> None:
    try:
        with open(path, "wb") as file:  # given a name, PyTorch would hide the reason
            torch.save(value, file)
    except RuntimeError as error:  # of PyTorch, while it handles that of the file
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def save_npy(path: Path, values: np.ndarray) -> None:
    values = np.ascontiguousarray(values)
    with open(path, "wb") as file:  # np.save would write past Python's file, and append .npy to the name
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(values))
        file.write(values.data)


def save_npz(path: Path, arrays: Mapping[str, Any], *, compressed: bool = False) -> None:
    with open(path, "wb") as file:  # given a name without .npz, NumPy would append it
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
