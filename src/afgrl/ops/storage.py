"""Tables with a row per node that may be larger than memory: ordinary tensors, or tensors in temporary files.

A file has no name, so that the system removes it with its tensor or with the process, however that ends. Pages of it
that are in memory are written back when others need them. A table is filled in blocks of rows, so that what it is
computed from takes the memory of a block; its values do not depend on where it is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK_ROWS = 1 << 18  # that are computed at once on a CPU
SMALLEST = 64 << 20  # bytes of a table that is worth a file

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextlib.contextmanager
def tables_in_files(folder: Path | None) -> Iterator[None]:
    """While it is active, large tables on a CPU are in files in this folder; in memory if it is None."""
    before = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(before)


def empty_rows(n: int, columns: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """[n, columns], not initialized."""
    folder, size = _folder.get(), dtype.itemsize * n * columns
    if folder is None or not goes_to_file(n, columns, device, dtype):
        return torch.empty(n, columns, device=device, dtype=dtype)
    descriptor, path = tempfile.mkstemp(prefix="table-", dir=folder)
    try:
        # A full disk is an error here, but would end the process when a page is written back.
        os.posix_fallocate(descriptor, 0, size)
        return torch.from_file(path, shared=True, size=n * columns, dtype=dtype).view(n, columns)
    finally:
        os.close(descriptor)
        os.unlink(path)


def goes_to_file(n: int, columns: int, device: torch.device, dtype: torch.dtype = torch.float32) -> bool:
    """Whether ``empty_rows`` puts such a table into a file: it should then be read and written by whole rows, since
    every page has values of all columns."""
    return _folder.get() is not None and device.type == "cpu" and dtype.itemsize * n * columns >= SMALLEST


def in_one_block(n: int, device: torch.device) -> bool:
    """Whether rows are computed at once: also while a model is exported, which must not depend on their number."""
    return device.type != "cpu" or torch.compiler.is_exporting() or n <= BLOCK_ROWS


def row_blocks(n: int, device: torch.device, rows: int | None = None) -> Iterator[slice]:
    """0…n-1 in parts that are computed at once, by default of ``BLOCK_ROWS``: one part on a GPU."""
    size = (rows or BLOCK_ROWS) if device.type == "cpu" else n
    return (slice(start, min(start + size, n)) for start in range(0, n, max(1, size)))


def filled_rows(n: int, columns: int, device: torch.device, compute: Callable[[slice], Tensor]) -> Tensor:
    """[n, columns], of which ``compute`` returns a block of rows."""
    if in_one_block(n, device):
        return compute(slice(0, n))
    table = empty_rows(n, columns, device)
    for rows in row_blocks(n, device):
        table[rows] = compute(rows)
    return table


def filled_like(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """[n, d] from ``x`` [n, d], of which ``change`` gets a block of rows."""
    return filled_rows(x.shape[0], x.shape[1], x.device, lambda rows: change(x[rows]))


def unit_table(x: Tensor) -> Tensor:
    """``F.normalize`` of a dense table [n, d]."""
    return filled_like(x, F.normalize)
