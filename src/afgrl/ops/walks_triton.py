"""Walks on a GPU: a program goes all steps of a few walks, which would else be thousands of kernels in a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.rows_triton import INTERPRETED
from afgrl.ops.walks import Neighborhoods

# Of a program. A walk waits for memory at every step, so the fewer share a program, the more programs wait at once.
WALKS = 64 if INTERPRETED else 32
BIASED_WALKS = 64 if INTERPRETED else 2


def uniform_kernel(neighborhoods: Neighborhoods, begin: Tensor, draws: Tensor) -> Tensor:
    """The walks that ``draws`` [length - 1, b] lead to: [b, length]."""
    length, b = draws.shape[0] + 1, len(begin)
    walks = torch.empty(b, length, dtype=torch.int64, device=begin.device)
    _uniform[(triton.cdiv(b, WALKS),)](
        neighborhoods.start, neighborhoods.node, begin.contiguous(), draws, walks, b, length, WALKS=WALKS, num_warps=1
    )
    return walks


def biased_kernel(neighborhoods: Neighborhoods, begin: Tensor, draws: Tensor, p: float, q: float) -> Tensor:
    """The walks that ``draws`` [length - 1, 2, tries, b] lead to: [b, length]."""
    length, tries, b = draws.shape[0] + 1, draws.shape[2], len(begin)
    walks = torch.empty(b, length, dtype=torch.int64, device=begin.device)
    edges = len(neighborhoods.node)
    _biased[(triton.cdiv(b, BIASED_WALKS),)](
        neighborhoods.start, neighborhoods.node, neighborhoods.key, begin.contiguous(), draws, walks,
        b, length, neighborhoods.n, edges, edges.bit_length(), tries, p, 1 / q, max(1.0, 1 / q),
        TRIES=triton.next_power_of_2(tries), WALKS=BIASED_WALKS, num_warps=1,
    )  # fmt: skip
    return walks


@triton.jit
def _uniform(start, node, begin, draws, walks, b, length, WALKS: tl.constexpr):
    walk = tl.program_id(0) * WALKS + tl.arange(0, WALKS)
    inside = walk < b
    current = tl.load(begin + walk, mask=inside, other=0)
    tl.store(walks + walk * length, current, mask=inside)
    for step in range(1, length):
        draw = tl.load(draws + (step - 1) * b + walk, mask=inside, other=0.0)
        first = tl.load(start + current)
        degree = tl.load(start + current + 1) - first
        slot = tl.maximum(tl.minimum((draw * degree.to(tl.float32)).to(tl.int64), degree - 1), 0)
        following = tl.load(node + first + slot, mask=degree > 0, other=0)
        current = tl.where(degree > 0, following, current)
        tl.store(walks + walk * length + step, current, mask=inside)


@triton.jit
def _find(key, wanted, edges, bits):
    """Where ``wanted`` is or would be in the ascending ``key``, and whether it is there."""
    low = tl.zeros_like(wanted)
    high = low + edges
    for _ in range(bits):
        active = low < high
        middle = (low + high) // 2
        right = active & (tl.load(key + middle, mask=active, other=0) < wanted)
        high = tl.where(active & (right == 0), middle, high)
        low = tl.where(right, middle + 1, low)
    return low, tl.load(key + tl.minimum(low, edges - 1)) == wanted


@triton.jit
def _biased(
    start, node, key, begin, draws, walks, b, length, n, edges, bits, tries, p, far, tallest,
    TRIES: tl.constexpr, WALKS: tl.constexpr,
):  # fmt: skip
    """As ``walks._second_order``, whose names these are; a row of a tile has the proposals of one walk."""
    walk = tl.program_id(0).to(tl.int64) * WALKS + tl.arange(0, WALKS)
    inside = walk < b
    attempt = tl.arange(0, TRIES)
    drawn = inside[:, None] & (attempt < tries)[None, :]
    current = tl.load(begin + walk, mask=inside, other=0)
    # Read once more: of a second name for one value Triton keeps the first value throughout the loop.
    previous = tl.load(begin + walk, mask=inside, other=0)
    tl.store(walks + walk * length, current, mask=inside)
    for step in range(1, length):
        first = tl.load(start + current)
        degree = tl.load(start + current + 1) - first
        position, returns = _find(key, current * n + previous, edges, bits)
        others = degree - returns.to(tl.int64)
        back = returns.to(tl.float32) / p
        at = ((step - 1) * 2 * tries + attempt).to(tl.int64)[None, :] * b + walk[:, None]
        dart = tl.load(draws + at, mask=drawn, other=0.0) * (back + tallest * others.to(tl.float32))[:, None]
        slot = ((dart - back[:, None]) / tallest).to(tl.int64)
        slot = tl.maximum(tl.minimum(slot, others[:, None] - 1), 0)
        slot += (returns[:, None] & (first[:, None] + slot >= position[:, None])).to(tl.int64)
        candidate = tl.load(node + tl.minimum(first[:, None] + slot, edges - 1))
        _, near = _find(key, previous[:, None] * n + candidate, edges, bits)
        weight = tl.where(near, 1.0, far)
        home = dart < back[:, None]
        accepted = home | (tl.load(draws + at + tries * b, mask=drawn, other=1.0) * tallest < weight)
        choice = tl.where(home, previous[:, None], candidate)
        # The first that is accepted, or the first of all.
        chosen = tl.min(tl.where(accepted & drawn, attempt[None, :], TRIES), 1)
        chosen = tl.where(chosen == TRIES, 0, chosen)
        following = tl.sum(tl.where(attempt[None, :] == chosen[:, None], choice, 0), 1)
        previous, current = current, tl.where(degree > 0, following, current)
        tl.store(walks + walk * length + step, current, mask=inside)
