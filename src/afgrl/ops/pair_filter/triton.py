"""``pair_kinds`` on a GPU in one kernel: a binary search and a few comparisons per pair."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def pair_kinds_triton(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    """As ``pair_kinds_reference``."""
    kind = torch.empty_like(src, dtype=torch.uint8)
    labels = edges if clusters is None else clusters  # without clusters any pointer will do
    _pair_kinds[(triton.cdiv(src.numel(), BLOCK),)](
        src, dst, edges, labels, kind, n, src.numel(), edges.numel(), 0 if clusters is None else clusters.stride(0),
        CLUSTERINGS=0 if clusters is None else clusters.shape[0], STEPS=edges.numel().bit_length(), BLOCK=BLOCK,
    )  # fmt: skip
    return kind


@triton.jit
def _pair_kinds(
    src, dst, edges, labels, kind_out, n, n_pairs, n_edges, stride,
    CLUSTERINGS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_pairs
    node = tl.load(src + at, mask=inside, other=0)
    other = tl.load(dst + at, mask=inside, other=0)
    key = node * n + other
    low = tl.zeros([BLOCK], tl.int64)  # the first edge that is not below the key is in [low, high]
    high = tl.zeros([BLOCK], tl.int64) + n_edges
    for _ in range(STEPS):
        middle = (low + high) // 2
        below = tl.load(edges + middle, mask=inside & (middle < n_edges), other=0) < key
        low, high = tl.where(below & (low < high), middle + 1, low), tl.where(below, high, middle)
    edge = tl.load(edges + low, mask=inside & (low < n_edges), other=-1)
    kind = ((edge == key) | (other == node)).to(tl.int32)
    same = tl.zeros([BLOCK], tl.int32)
    for run in range(CLUSTERINGS):
        mine = tl.load(labels + run * stride + node, mask=inside, other=0)
        same |= (mine == tl.load(labels + run * stride + other, mask=inside, other=-1)).to(tl.int32)
    tl.store(kind_out + at, (kind + 2 * same).to(tl.uint8), mask=inside)
