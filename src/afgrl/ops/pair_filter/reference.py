"""The kinds of pairs by PyTorch's binary search and comparisons."""

from __future__ import annotations

import torch
from torch import Tensor

LOCAL, GLOBAL = 1, 2  # bits of a kind
BLOCK = 1 << 20  # pairs whose keys and labels are in memory at once


def pair_kinds_reference(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    """LOCAL | GLOBAL of each pair: [p] uint8."""
    blocks = zip(src.split(BLOCK), dst.split(BLOCK), strict=True)
    return torch.cat([_block_kinds(*ends, edges, clusters, n) for ends in blocks])


def _block_kinds(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    kind = LOCAL * (_contains(edges, src * n + dst) | (src == dst)).to(torch.uint8)
    if clusters is not None:
        kind += GLOBAL * (clusters[:, src] == clusters[:, dst]).any(0)
    return kind


def _contains(ascending: Tensor, keys: Tensor) -> Tensor:
    if ascending.numel() == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    position = torch.searchsorted(ascending, keys).clamp(max=ascending.numel() - 1)
    return ascending[position] == keys
