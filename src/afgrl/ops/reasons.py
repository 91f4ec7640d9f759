"""Why a neighbor is a positive: the graph says so, or a clustering."""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.dispatch import takes_kernels

ADJACENT, SAME_CLUSTER = 1, 2  # bits of a reason


def reasons(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    """ADJACENT | SAME_CLUSTER for each pair of ``n`` nodes: [p] uint8.

    ``edges`` holds ``i · n + j`` for each edge, ascending; ``clusters`` is [m, n]. A node counts as adjacent to itself.
    """
    if takes_kernels(src):
        from afgrl.ops.reasons_triton import reasons_kernel

        return reasons_kernel(src, dst, edges, clusters, n)
    return reasons_reference(src, dst, edges, clusters, n)


def reasons_reference(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    why = ADJACENT * (_contains(edges, src * n + dst) | (src == dst)).to(torch.uint8)
    if clusters is not None:
        why += SAME_CLUSTER * (clusters[:, src] == clusters[:, dst]).any(0)
    return why


def _contains(ascending: Tensor, keys: Tensor) -> Tensor:
    if ascending.numel() == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    place = torch.searchsorted(ascending, keys).clamp(max=ascending.numel() - 1)
    return ascending[place] == keys
