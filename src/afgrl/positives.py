"""The real positives of each node (equation 2 of the paper): neighbours in embedding space that the graph or
a clustering confirms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from afgrl.graph import Graph
from afgrl.ops import knn

ADJACENT, SAME_CLUSTER = 1, 2  # bits of Pairs.why
Rule = Literal["knn", "knn+adj", "knn+clusters", "clusters", "all"]
CLUSTERED: tuple[Rule, ...] = ("knn+clusters", "clusters", "all")  # the rules that read clusters

BLOCK_BYTES = 64 << 20  # of comparisons at a time for the rule "clusters"


@dataclass(frozen=True, eq=False)
class Pairs:
    """The positives: node ``src[p]`` shall predict the target vector of node ``dst[p]``."""

    src: Tensor  # [p] int64, ascending
    dst: Tensor  # [p] int64, nearest first for each src; a node may be its own positive
    why: Tensor  # [p] uint8, ADJACENT | SAME_CLUSTER; 0 for a neighbour that nothing confirms (rule "knn")

    def __len__(self) -> int:
        return self.src.shape[0]


def edge_keys(graph: Graph) -> Tensor:
    """Each edge as one number, ascending: what ``find_positives`` looks adjacency up in."""
    return graph.edge_index[0] * graph.n + graph.edge_index[1]


def find_positives(
    h: Tensor,
    t: Tensor,
    edges: Tensor,
    clusters: Tensor | None,
    *,
    rule: Rule = "all",
    n_neighbors: int = 4,
    include_self: bool = True,
) -> Pairs:
    """P_i = (B_i ∩ N_i) ∪ (B_i ∩ C_i), or what the ablation ``rule`` leaves of it.

    B_i are the ``n_neighbors`` nearest target vectors ``t`` of the online vector ``h_i`` by cosine. With
    ``include_self`` the node is always the first of them and counts as adjacent to itself, so it is always a
    positive; without, it is never one. ``edges`` comes from ``edge_keys``; ``clusters`` is [m, n].
    """
    n = h.shape[0]
    if rule == "clusters":
        assert clusters is not None
        return _cluster_mates(clusters, include_self)
    k = min(n_neighbors, n if include_self else n - 1)
    if k == 0:
        nothing = torch.empty(0, dtype=torch.int64, device=h.device)
        return Pairs(nothing, nothing, nothing.to(torch.uint8))
    dst = knn(h, t, k, diagonal="first" if include_self else "drop").index  # [n, k] = B_i
    src = torch.arange(n, device=h.device).unsqueeze(1).expand_as(dst)
    why = torch.zeros_like(dst, dtype=torch.uint8)
    if rule != "knn":
        why += ADJACENT * (_contains(edges, src * n + dst) | (src == dst))
    if clusters is not None:
        why += SAME_CLUSTER * (clusters[:, src] == clusters[:, dst]).any(0)
    wanted = {"knn": 0, "knn+adj": ADJACENT, "knn+clusters": SAME_CLUSTER, "all": ADJACENT | SAME_CLUSTER}[rule]
    kept = (why & wanted).bool() if wanted else torch.ones_like(why, dtype=torch.bool)
    return Pairs(src[kept], dst[kept], why[kept])


def _contains(ascending: Tensor, keys: Tensor) -> Tensor:
    if ascending.numel() == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    place = torch.searchsorted(ascending, keys).clamp(max=ascending.numel() - 1)
    return ascending[place] == keys


def _cluster_mates(clusters: Tensor, include_self: bool) -> Pairs:
    """All nodes that share a cluster, near or not: about m·n²/k pairs, for the ablation only."""
    n = clusters.shape[1]
    block = max(1, BLOCK_BYTES // (clusters.shape[0] * n))
    found = []
    for start in range(0, n, block):
        mates = (clusters[:, start : start + block, None] == clusters[:, None, :]).any(0)  # [b, n]
        if not include_self:
            mates.diagonal(start).fill_(False)
        found.append(mates.nonzero() + torch.tensor([start, 0], device=clusters.device))
    src, dst = torch.cat(found).T
    return Pairs(src, dst, torch.full_like(src, SAME_CLUSTER, dtype=torch.uint8))
