"""The positives of each node (equation 2 of the paper): nearest neighbors in embedding space that pass a filter.

A candidate is a local positive if it is adjacent to the node, and a global positive if a clustering puts both in the
same cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.ops.collectives import Shards
from afgrl.ops.dispatch import Precision
from afgrl.ops.knn import Diagonal, nearest_neighbors
from afgrl.ops.knn.clusters import nearest_in_clusters
from afgrl.ops.knn.visitors import Clustering
from afgrl.ops.pair_filter import GLOBAL, LOCAL, pair_kinds
from afgrl.ops.propagation.adjacency import Adjacency, diagonal, edge_numbers_from
from afgrl.ops.propagation.columns import hops
from afgrl.ops.storage import filled_rows

Rule = Literal["knn", "knn+adj", "knn+clusters", "clusters", "all"]
CLUSTER_RULES: tuple[Rule, ...] = ("knn+clusters", "clusters", "all")  # the rules that need clusters

BLOCK_BYTES = 64 << 20  # per block of comparisons for the rule "clusters"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidates, and which of them are positives: node ``src[p]`` predicts the target vector of node ``dst[p]``.

    Rejected candidates stay in the arrays, so that no shape depends on the data and the GPU need not be synchronized.
    """

    src: Tensor  # [p] int64, ascending
    dst: Tensor  # [p] int64, nearest first for each src; a node may be its own positive
    kind: Tensor  # [p] uint8, LOCAL | GLOBAL; 0 if the filter rejects the candidate
    is_positive: Tensor  # [p] bool

    def compact(self) -> Pairs:
        """Only the positives."""
        return Pairs(*(part[self.is_positive] for part in (self.src, self.dst, self.kind, self.is_positive)))


def edge_keys(graph: Graph | MappedGraph, shards: Shards | None = None) -> Tensor:
    """Each edge as one number ``source · n + target``, ascending: [e] int64, for ``filter_pairs``; with several
    processes, the edges that begin at the nodes of this one."""
    shards = shards or Shards(graph.n)
    return edge_numbers_from(graph, shards.begin, shards.end)


def candidate_pairs(
    h: Tensor, t: Tensor, n_neighbors: int, include_self: bool, precision: Precision = "float32",
    clustering: Clustering | None = None, shards: Shards | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """B_i, the target vectors ``t`` nearest to each online vector ``h_i`` by cosine, as ``src`` and ``dst``, both [p].

    Each node has ``n_neighbors`` candidates, nearest first, or fewer if the graph is smaller. With ``include_self``
    each node is its own first candidate; otherwise it is never its own. ``precision`` applies to the similarities on a
    GPU. With ``clustering`` the search is approximate: it covers the nearest clusters only. With several processes,
    vectors and pairs are those of the nodes of this one.
    """
    shards = shards or Shards(h.shape[0])
    k = min(n_neighbors, shards.n if include_self else shards.n - 1)
    if k == 0:
        empty = torch.empty(0, dtype=torch.int64, device=h.device)
        return empty, empty
    itself: Diagonal = "first" if include_self else "drop"
    if clustering is not None:
        labels, centers, probes = clustering
        nearest = nearest_in_clusters(h, t, k, labels, centers, diagonal=itself, probes=probes, shards=shards)
    else:
        nearest = nearest_neighbors(h, t, k, diagonal=itself, precision=precision, shards=shards)
    nodes = torch.arange(shards.begin, shards.end, device=h.device)
    return nodes.repeat_interleave(k), nearest.index.flatten()


def filter_pairs(src: Tensor, dst: Tensor, n: int, edges: Tensor, clusters: Tensor | None, rule: Rule) -> Pairs:
    """P_i = (B_i ∩ N_i) ∪ (B_i ∩ C_i) from the candidates B_i, or the part of it that the ablation ``rule`` keeps.

    ``edges`` comes from ``edge_keys``; ``clusters`` [m, n] holds m clusterings. A node counts as adjacent to itself.
    """
    if rule == "knn":
        kind = torch.zeros_like(dst, dtype=torch.uint8)
        return Pairs(src, dst, kind, torch.ones_like(kind, dtype=torch.bool))
    kind = pair_kinds(src, dst, edges, clusters, n)
    accepted = kind if rule == "all" else kind & (LOCAL if rule == "knn+adj" else GLOBAL)
    return Pairs(src, dst, kind, accepted.bool())


def same_cluster_pairs(clusters: Tensor, include_self: bool) -> Pairs:
    """All pairs of nodes that share a cluster, near or not: about m·n²/k pairs, for the ablation only."""
    n = clusters.shape[1]
    block = max(1, BLOCK_BYTES // (clusters.shape[0] * n))
    blocks = []
    for start in range(0, n, block):
        same = (clusters[:, start : start + block, None] == clusters[:, None, :]).any(0)  # [b, n]
        if not include_self:
            same.diagonal(start).fill_(False)
        blocks.append(same.nonzero() + torch.tensor([start, 0], device=clusters.device))
    src, dst = torch.cat(blocks).T.contiguous()
    kind = torch.full_like(src, GLOBAL, dtype=torch.uint8)
    return Pairs(src, dst, kind, torch.ones_like(kind, dtype=torch.bool))


def neighbor_mean(t: Tensor, adjacency: Adjacency) -> Tensor:
    """The direction of the mean of ``u(t_j)`` over the node itself and its neighbors j: unit rows, [n, d].

    S = D^-1/2 (A + I) D^-1/2, so ``S D^1/2`` is A + I with scaled rows, and D is one over S's diagonal.
    """
    scale = diagonal(adjacency).rsqrt().unsqueeze(1)
    scaled = filled_rows(t.shape[0], t.shape[1], t.device, lambda rows: scale[rows] * F.normalize(t[rows]))
    (total,) = hops(scaled, adjacency, 1)
    return F.normalize(total, out=total)
