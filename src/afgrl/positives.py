"""The real positives of each node (equation 2 of the paper): neighbors in embedding space that the graph or
a clustering confirms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from afgrl.graph import Graph
from afgrl.ops import ADJACENT, SAME_CLUSTER, Precision, knn, reasons
from afgrl.ops.knn import Diagonal
from afgrl.ops.knn_clusters import knn_in_clusters

Rule = Literal["knn", "knn+adj", "knn+clusters", "clusters", "all"]
CLUSTERED: tuple[Rule, ...] = ("knn+clusters", "clusters", "all")  # the rules that read clusters

BLOCK_BYTES = 64 << 20  # of comparisons at a time for the rule "clusters"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidates, and which of them are positives: node ``src[p]`` shall predict the target vector of ``dst[p]``.

    Those that are not stay in their place, so that sizes do not depend on what was found: no GPU is waited for.
    """

    src: Tensor  # [p] int64, ascending
    dst: Tensor  # [p] int64, nearest first for each src; a node may be its own positive
    why: Tensor  # [p] uint8, ADJACENT | SAME_CLUSTER; 0 for a neighbor that nothing confirms
    kept: Tensor  # [p] bool: it is a positive

    def compact(self) -> Pairs:
        """The positives alone."""
        return Pairs(*(part[self.kept] for part in (self.src, self.dst, self.why, self.kept)))


def edge_keys(graph: Graph) -> Tensor:
    """Each edge as one number, ascending: what ``confirm`` looks adjacency up in."""
    return graph.edge_index[0] * graph.n + graph.edge_index[1]


class Groups(NamedTuple):
    """A clustering of the target vectors, for a search that looks into the nearest clusters only."""

    labels: Tensor  # [n]
    centers: Tensor  # [k, d]


def nearest(
    h: Tensor, t: Tensor, n_neighbors: int, include_self: bool, precision: Precision = "float32",
    groups: Groups | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """B_i, the nearest target vectors ``t`` of each online vector ``h_i`` by cosine, as ``src`` and ``dst``.

    Each node has ``n_neighbors``, nearest first, or as many as there are nodes. With ``include_self`` it is always the
    first of its own; without, it is never one. ``precision`` is that of the similarities that choose on a GPU. With
    ``groups`` neighbors beyond the nearest clusters are missed.
    """
    n = h.shape[0]
    k = min(n_neighbors, n if include_self else n - 1)
    if k == 0:
        nothing = torch.empty(0, dtype=torch.int64, device=h.device)
        return nothing, nothing
    diagonal: Diagonal = "first" if include_self else "drop"
    if groups is not None:
        found = knn_in_clusters(h, t, k, *groups, diagonal=diagonal)
    else:
        found = knn(h, t, k, diagonal=diagonal, precision=precision)
    return torch.arange(n, device=h.device).repeat_interleave(k), found.index.flatten()


def confirm(src: Tensor, dst: Tensor, n: int, edges: Tensor, clusters: Tensor | None, rule: Rule) -> Pairs:
    """P_i = (B_i ∩ N_i) ∪ (B_i ∩ C_i), or what the ablation ``rule`` leaves of it, of B_i from ``nearest``.

    ``edges`` comes from ``edge_keys``; ``clusters`` is [m, n]. A node counts as adjacent to itself.
    """
    if rule == "knn":
        why = torch.zeros_like(dst, dtype=torch.uint8)
        return Pairs(src, dst, why, torch.ones_like(why, dtype=torch.bool))
    why = reasons(src, dst, edges, clusters, n)
    wanted = {"knn+adj": ADJACENT, "knn+clusters": SAME_CLUSTER, "all": ADJACENT | SAME_CLUSTER}[rule]
    return Pairs(src, dst, why, why.bool() if rule == "all" else (why & wanted).bool())


def cluster_mates(clusters: Tensor, include_self: bool) -> Pairs:
    """All nodes that share a cluster, near or not: about m·n²/k pairs, for the ablation only."""
    n = clusters.shape[1]
    block = max(1, BLOCK_BYTES // (clusters.shape[0] * n))
    found = []
    for start in range(0, n, block):
        mates = (clusters[:, start : start + block, None] == clusters[:, None, :]).any(0)  # [b, n]
        if not include_self:
            mates.diagonal(start).fill_(False)
        found.append(mates.nonzero() + torch.tensor([start, 0], device=clusters.device))
    src, dst = torch.cat(found).T.contiguous()
    why = torch.full_like(src, SAME_CLUSTER, dtype=torch.uint8)
    return Pairs(src, dst, why, torch.ones_like(why, dtype=torch.bool))
