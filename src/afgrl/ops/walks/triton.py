"""Random walks on a GPU: one program makes all steps of a few walks, instead of thousands of kernels in sequence."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.triton_rows import INTERPRETED
from afgrl.ops.walks.reference import WalkGraph

# Walks of a program. A walk waits for memory at every step, so the fewer a program has, the more programs wait at once.
WALKS = 64 if INTERPRETED else 32
BIASED_WALKS = 64 if INTERPRETED else 2


def uniform_walks_triton(graph: WalkGraph, start: Tensor, draws: Tensor) -> Tensor:
    """As ``uniform_walks_reference``, for graphs without edge weights."""
    length, b = draws.shape[0] + 1, len(start)
    walks = torch.empty(b, length, dtype=torch.int64, device=start.device)
    _uniform[(triton.cdiv(b, WALKS),)](
        graph.adjacency.indptr, graph.adjacency.indices, start.contiguous(), draws, walks, b, length,
        WALKS=WALKS, num_warps=1,
    )  # fmt: skip
    return walks


def biased_walks_triton(graph: WalkGraph, start: Tensor, draws: Tensor, p: float, q: float) -> Tensor:
    """As ``biased_walks_reference``, for graphs without edge weights."""
    length, tries, b = draws.shape[0] + 1, draws.shape[2], len(start)
    walks = torch.empty(b, length, dtype=torch.int64, device=start.device)
    n, n_edges = graph.adjacency.shape[0], graph.adjacency.nnz
    _biased[(triton.cdiv(b, BIASED_WALKS),)](
        graph.adjacency.indptr, graph.adjacency.indices, graph.keys, start.contiguous(), draws, walks,
        b, length, n, n_edges, n_edges.bit_length(), tries, p, 1 / q, max(1.0, 1 / q),
        TRIES=triton.next_power_of_2(tries), WALKS=BIASED_WALKS, num_warps=1,
    )  # fmt: skip
    return walks


@triton.jit
def _uniform(indptr, indices, start, draws, walks, b, length, WALKS: tl.constexpr):
    walk = tl.program_id(0) * WALKS + tl.arange(0, WALKS)
    inside = walk < b
    current = tl.load(start + walk, mask=inside, other=0)
    tl.store(walks + walk * length, current, mask=inside)
    for step in range(1, length):
        draw = tl.load(draws + (step - 1) * b + walk, mask=inside, other=0.0)
        first = tl.load(indptr + current)
        degree = tl.load(indptr + current + 1) - first
        slot = tl.maximum(tl.minimum((draw * degree.to(tl.float32)).to(tl.int64), degree - 1), 0)
        following = tl.load(indices + first + slot, mask=degree > 0, other=0)
        current = tl.where(degree > 0, following, current)
        tl.store(walks + walk * length + step, current, mask=inside)


@triton.jit
def _find(keys, wanted, n_edges, bits):
    """The position of ``wanted`` in the ascending ``keys``, or where it would be inserted, and whether it is there."""
    low = tl.zeros_like(wanted)
    high = low + n_edges
    for _ in range(bits):
        active = low < high
        middle = (low + high) // 2
        right = active & (tl.load(keys + middle, mask=active, other=0) < wanted)
        high = tl.where(active & (right == 0), middle, high)
        low = tl.where(right, middle + 1, low)
    return low, tl.load(keys + tl.minimum(low, n_edges - 1)) == wanted


@triton.jit
def _biased(
    indptr, indices, keys, start, draws, walks, b, length, n, n_edges, bits, tries, p, far, tallest,
    TRIES: tl.constexpr, WALKS: tl.constexpr,
):  # fmt: skip
    """As ``_second_order_step`` of the reference, with its names; a row of a tile has the proposals of one walk."""
    walk = tl.program_id(0).to(tl.int64) * WALKS + tl.arange(0, WALKS)
    inside = walk < b
    attempt = tl.arange(0, TRIES)
    drawn = inside[:, None] & (attempt < tries)[None, :]
    current = tl.load(start + walk, mask=inside, other=0)
    # Loaded a second time: with ``previous = current`` Triton would use the first value throughout the loop.
    previous = tl.load(start + walk, mask=inside, other=0)
    tl.store(walks + walk * length, current, mask=inside)
    for step in range(1, length):
        first = tl.load(indptr + current)
        degree = tl.load(indptr + current + 1) - first
        entry, returns = _find(keys, current * n + previous, n_edges, bits)
        others = degree - returns.to(tl.int64)
        back = returns.to(tl.float32) / p
        at = ((step - 1) * 2 * tries + attempt).to(tl.int64)[None, :] * b + walk[:, None]
        point = tl.load(draws + at, mask=drawn, other=0.0) * (back + tallest * others.to(tl.float32))[:, None]
        slot = ((point - back[:, None]) / tallest).to(tl.int64)
        slot = tl.maximum(tl.minimum(slot, others[:, None] - 1), 0)
        slot += (returns[:, None] & (first[:, None] + slot >= entry[:, None])).to(tl.int64)
        candidate = tl.load(indices + tl.minimum(first[:, None] + slot, n_edges - 1))
        _, near = _find(keys, previous[:, None] * n + candidate, n_edges, bits)
        weight = tl.where(near, 1.0, far)
        is_return = point < back[:, None]
        accepted = is_return | (tl.load(draws + at + tries * b, mask=drawn, other=1.0) * tallest < weight)
        choice = tl.where(is_return, previous[:, None], candidate)
        # The first accepted proposal, or the first of all.
        chosen = tl.min(tl.where(accepted & drawn, attempt[None, :], TRIES), 1)
        chosen = tl.where(chosen == TRIES, 0, chosen)
        following = tl.sum(tl.where(attempt[None, :] == chosen[:, None], choice, 0), 1)
        previous, current = current, tl.where(degree > 0, following, current)
        tl.store(walks + walk * length + step, current, mask=inside)
