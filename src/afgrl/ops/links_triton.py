"""``gather`` on a GPU: a program sums a block of columns over a piece of a row, several entries in flight at a time."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.links import Pieces
from afgrl.ops.rows_triton import INTERPRETED

# Of a tile. A block of columns of all rows stays in the L2 cache, from which every neighbor is read.
COLUMNS, ENTRIES, WARPS = 512 if INTERPRETED else 128, 8, 1


def gather_kernel(n: int, pieces: Pieces, other: Tensor, weight: Tensor, places: Tensor | None, h: Tensor) -> Tensor:
    """Row i sums ``weight[p] · h[other[e]]`` over its entries e, with p = ``places[e]``, or e itself without places."""
    d, h = h.shape[1], h.contiguous()
    first, last, to, parted, begin = pieces
    columns = min(COLUMNS, triton.next_power_of_2(d))
    blocks = triton.cdiv(d, columns)
    out = torch.empty(n + len(to) - (n - len(parted)), d, device=h.device)  # the rows, then the sums of pieces
    _gather[(len(to), blocks)](
        first, last, to, other, weight, weight if places is None else places, h, out, d,
        PLACED=int(places is not None), COLUMNS=columns, ENTRIES=ENTRIES, num_warps=WARPS,
    )  # fmt: skip
    if len(parted):
        _join[(len(parted), blocks)](parted, begin, out, d, COLUMNS=columns, ENTRIES=ENTRIES, num_warps=WARPS)
    return out[:n]


@triton.jit
def _gather(
    first, last, to, other, weight, places, h, out, d,
    PLACED: tl.constexpr, COLUMNS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    end = tl.load(last + piece)
    for start in range(tl.load(first + piece), end, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        inside = entry < end
        place = entry
        if PLACED:
            place = tl.load(places + entry, mask=inside, other=0)
        factor = tl.load(weight + place, mask=inside, other=0.0)
        counts = factor != 0.0  # a dropped edge costs no reading of its vector
        node = tl.load(other + entry, mask=inside, other=0).to(tl.int64)
        mask = counts[:, None] & (column < d)[None, :]
        total += tl.sum(tl.load(h + node[:, None] * d + column[None, :], mask=mask, other=0.0) * factor[:, None], 0)
    tl.store(out + tl.load(to + piece) * d + column, total, mask=column < d)


@triton.jit
def _join(parted, begin, out, d, COLUMNS: tl.constexpr, ENTRIES: tl.constexpr):
    """The sums of a row's pieces, in order."""
    which = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    end = tl.load(begin + which + 1)
    for start in range(tl.load(begin + which), end, ENTRIES):
        part = (start + tl.arange(0, ENTRIES)).to(tl.int64)
        mask = (part < end)[:, None] & (column < d)[None, :]
        total += tl.sum(tl.load(out + part[:, None] * d + column[None, :], mask=mask, other=0.0), 0)
    tl.store(out + tl.load(parted + which) * d + column, total, mask=column < d)
