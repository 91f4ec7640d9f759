"""SpMM on a GPU: one program sums a block of columns over one segment of a row, with several entries in flight."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.sparse.matrix import RowSplit, SparseMatrix, whole_rows
from afgrl.ops.triton_rows import INTERPRETED

# Size of a tile. A block of columns of all rows fits the L2 cache, from which the vectors of all neighbors are read.
COLUMNS, ENTRIES, WARPS = 512 if INTERPRETED else 128, 8, 1


def spmm_triton(matrix: SparseMatrix, h: Tensor, values: Tensor, transposed: bool) -> Tensor:
    """As ``spmm_reference``."""
    if transposed:
        split = matrix.row_split_t or whole_rows(matrix.indptr_t)
        return segment_sums(split, matrix.shape[1], matrix.indices_t, values, matrix.order_t, h)
    split = matrix.row_split or whole_rows(matrix.indptr)
    return segment_sums(split, matrix.shape[0], matrix.indices, values, None, h)


def segment_sums(split: RowSplit, n: int, indices: Tensor, values: Tensor, order: Tensor | None, h: Tensor) -> Tensor:
    """Row i sums ``values[order[e]] · h[indices[e]]`` over its entries e; without ``order``, ``values[e]``: [n, d]."""
    d, h = h.shape[1], h.contiguous()
    n_segments, n_long = len(split.output), len(split.long_rows)
    columns = min(COLUMNS, triton.next_power_of_2(d))
    blocks = triton.cdiv(d, columns)
    out = torch.empty(n + n_segments - (n - n_long), d, device=h.device)  # the rows, then the partial sums of long rows
    _sum_segments[(n_segments, blocks)](
        split.begin, split.end, split.output, indices, values, values if order is None else order, h, out, d,
        ORDERED=int(order is not None), COLUMNS=columns, ENTRIES=ENTRIES, num_warps=WARPS,
    )  # fmt: skip
    if n_long:
        _add_partial_sums[(n_long, blocks)](
            split.long_rows, split.partial_begin, out, d, COLUMNS=columns, ENTRIES=ENTRIES, num_warps=WARPS
        )
    return out[:n]


@triton.jit
def _sum_segments(
    segment_begin, segment_end, output, indices, values, order, h, out, d,
    ORDERED: tl.constexpr, COLUMNS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    segment = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    end = tl.load(segment_end + segment)
    for start in range(tl.load(segment_begin + segment), end, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        inside = entry < end
        number = entry
        if ORDERED:
            number = tl.load(order + entry, mask=inside, other=0)
        value = tl.load(values + number, mask=inside, other=0.0)
        counts = value != 0.0  # the vector of a dropped edge is not read
        node = tl.load(indices + entry, mask=inside, other=0).to(tl.int64)
        mask = counts[:, None] & (column < d)[None, :]
        total += tl.sum(tl.load(h + node[:, None] * d + column[None, :], mask=mask, other=0.0) * value[:, None], 0)
    tl.store(out + tl.load(output + segment) * d + column, total, mask=column < d)


@triton.jit
def _add_partial_sums(long_rows, partial_begin, out, d, COLUMNS: tl.constexpr, ENTRIES: tl.constexpr):
    """Adds the sums of the segments of a long row, in order."""
    number = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    end = tl.load(partial_begin + number + 1)
    for start in range(tl.load(partial_begin + number), end, ENTRIES):
        partial = (start + tl.arange(0, ENTRIES)).to(tl.int64)
        mask = (partial < end)[:, None] & (column < d)[None, :]
        total += tl.sum(tl.load(out + partial[:, None] * d + column[None, :], mask=mask, other=0.0), 0)
    tl.store(out + tl.load(long_rows + number) * d + column, total, mask=column < d)
