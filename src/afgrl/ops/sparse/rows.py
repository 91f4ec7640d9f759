"""Scaling the rows of a table, dense or CSR."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr_tensor
from afgrl.ops.collectives import Shards
from afgrl.ops.storage import unit_table

SMALLEST = 1e-12  # length or sum, as in F.normalize: a row of stored zeros must not become 0 / 0


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to Euclidean length 1; zero rows stay zero."""
    return F.normalize(x) if x.layout != torch.sparse_csr else scale_rows(x, 1 / row_lengths(x))


def unit_row_table(x: Tensor) -> Tensor:
    """``unit_rows`` of vectors that may be larger than memory: dense rows become a table of ``ops.storage``."""
    return unit_table(x) if x.layout != torch.sparse_csr else unit_rows(x)


def unit_sums(x: Tensor) -> Tensor:
    """Rows scaled so that their absolute values sum to 1; zero rows stay zero."""
    if x.layout != torch.sparse_csr:
        return F.normalize(x, p=1.0)
    return scale_rows(x, 1 / _row_sums(x, x.values().abs()).clamp(min=SMALLEST))


def row_lengths(x: Tensor) -> Tensor:
    """Euclidean length of each row of a CSR tensor, at least ``SMALLEST``: [n]."""
    return _row_sums(x, x.values().square()).sqrt().clamp(min=SMALLEST)


def scale_rows(x: Tensor, factor: Tensor) -> Tensor:
    """A CSR tensor with row i multiplied by ``factor[i]``."""
    values = x.values() * factor[_row_of_entries(x)]
    return csr_tensor(x.crow_indices(), x.col_indices(), values, (x.shape[0], x.shape[1]))


def own_rows(x: Tensor, shards: Shards) -> Tensor:
    """The rows of this process, from all rows of a dense or CSR tensor; in memory of their own if others have some."""
    return row_range(x, shards.begin, shards.end) if shards.distributed else x


def row_range(x: Tensor, begin: int, end: int) -> Tensor:
    """Rows ``begin`` to ``end - 1`` of a dense or CSR tensor, in memory of their own, with indices of 64 bits."""
    if x.layout != torch.sparse_csr:
        return x[begin:end].clone()
    crow = x.crow_indices()[begin : end + 1].to(torch.int64)
    first, last = int(crow[0]), int(crow[-1])
    columns = x.col_indices()[first:last].to(torch.int64, copy=True)
    parts = (crow - first, columns, x.values()[first:last].clone())
    return csr_tensor(*parts, (end - begin, x.shape[1]))


def _row_sums(x: Tensor, values: Tensor) -> Tensor:
    """Sums of ``values``, one per entry of the CSR tensor ``x``, over each row, in a fixed order on a GPU too: [n]."""
    return torch.segment_reduce(values, "sum", offsets=x.crow_indices(), axis=0)


def _row_of_entries(x: Tensor) -> Tensor:
    return torch.repeat_interleave(x.crow_indices().diff())
