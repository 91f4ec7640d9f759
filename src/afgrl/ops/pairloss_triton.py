"""``pair_loss`` on a GPU: what pulls at a node, its agreement with it and the gradient, in one pass over the rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.pairloss import PairMatrix

ENTRIES = 8  # rows of the target in flight at a time, or fewer where a node has fewer pairs


def attract_kernel(z: Tensor, t: Tensor, matrix: PairMatrix, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """<P, (M + Mᵀ) T> with unit rows P of ``z`` and T of ``t``, and the gradient of the loss by ``z``."""
    n, d = z.shape
    z, t = z.contiguous(), t.contiguous()
    forth, back = matrix.directions
    inverse = torch.empty(n, device=z.device)
    gradient = torch.empty_like(z)
    along = torch.empty(n, device=z.device)
    block = triton.next_power_of_2(d)
    entries = min(ENTRIES, triton.next_power_of_2(max(1, matrix.src.numel() // n)))
    _inverse_length[(n,)](t, inverse, d, BLOCK=block)
    _attract[(n,)](
        z, t, inverse, *forth, *back, divisor, along, gradient, d,
        BLOCK=block, ENTRIES=entries, num_warps=4 if block <= 1024 else 8,
    )  # fmt: skip
    return along.sum(), gradient


@triton.jit
def _inverse_length(t, inverse_to, d, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(t + row * d + column, mask=column < d, other=0.0)
    tl.store(inverse_to + row, 1.0 / tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-12))


@triton.jit
def _pull(t, inverse, start, other, weight, row, d, BLOCK: tl.constexpr, ENTRIES: tl.constexpr):
    """The sum of the unit target vectors that the pairs of a node lead to."""
    column = tl.arange(0, BLOCK)
    pull = tl.zeros([BLOCK], tl.float32)
    last = tl.load(start + row + 1)
    for first in range(tl.load(start + row), last, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        factor = tl.load(weight + entry, mask=entry < last, other=0.0)
        counts = factor > 0
        node = tl.load(other + entry, mask=counts, other=0).to(tl.int64)
        factor *= tl.load(inverse + node, mask=counts, other=0.0)
        inside = counts[:, None] & (column < d)[None, :]
        pull += tl.sum(tl.load(t + node[:, None] * d + column[None, :], mask=inside, other=0.0) * factor[:, None], 0)
    return pull


@triton.jit
def _attract(
    z, t, inverse, start, other, weight, start_back, other_back, weight_back, divisor, along_to, gradient_to, d,
    BLOCK: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    pull = _pull(t, inverse, start, other, weight, row, d, BLOCK, ENTRIES)
    pull += _pull(t, inverse, start_back, other_back, weight_back, row, d, BLOCK, ENTRIES)
    own = tl.load(z + row * d + column, mask=column < d, other=0.0)
    length = tl.maximum(tl.sqrt(tl.sum(own * own, 0)), 1e-12)
    unit = own / length
    along = tl.sum(unit * pull, 0)
    tl.store(along_to + row, along)
    slope = (unit * along - pull) * (2.0 / (tl.load(divisor) * length))
    tl.store(gradient_to + row * d + column, slope, mask=column < d)
