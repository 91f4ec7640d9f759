"""Which candidate pairs are local positives (adjacent in the graph) and which are global ones (in the same cluster)."""

from __future__ import annotations

from torch import Tensor

from afgrl.ops.dispatch import takes_kernels
from afgrl.ops.pair_filter.reference import GLOBAL, LOCAL, pair_kinds_reference

__all__ = ["GLOBAL", "LOCAL", "pair_kinds"]


def pair_kinds(src: Tensor, dst: Tensor, edges: Tensor, clusters: Tensor | None, n: int) -> Tensor:
    """LOCAL | GLOBAL of each pair of nodes (src[p], dst[p]), 0 if it is neither: [p] uint8.

    ``edges`` holds ``i · n + j`` of each edge, ascending; ``clusters`` [m, n] holds the labels of m clusterings, and a
    pair is global if it shares a cluster in any of them. A node is adjacent to itself.
    """
    if takes_kernels(src):
        from afgrl.ops.pair_filter.triton import pair_kinds_triton

        return pair_kinds_triton(src, dst, edges, clusters, n)
    return pair_kinds_reference(src, dst, edges, clusters, n)
