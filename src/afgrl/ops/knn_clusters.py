"""Nearest neighbours by cosine, looked for in the nearest clusters only: for graphs too large to compare all."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.knn import BLOCK_BYTES, Diagonal, Neighbours

PROBES = 8  # clusters that are looked into


def knn_in_clusters(
    query: Tensor, key: Tensor, k: int, labels: Tensor, centres: Tensor, *, diagonal: Diagonal, probes: int = PROBES
) -> Neighbours:
    """As ``knn`` of equally many queries and keys, but node i, of cluster ``labels[i]``, finds only the keys in the
    ``probes`` clusters whose ``centres`` are nearest to that of its own, or in more where these hold too few."""
    n, n_clusters = len(labels), len(centres)
    if query.shape != key.shape or labels.shape != (n,) or n != len(key):
        raise UserError("Queries, keys and labels must be of the same nodes.")
    query, key, centres = F.normalize(query), F.normalize(key), F.normalize(centres)
    order = labels.argsort(stable=True)
    start = torch.searchsorted(labels[order], torch.arange(n_clusters + 1).to(labels)).tolist()
    members = [order[start[c] : start[c + 1]] for c in range(n_clusters)]
    near = (centres @ centres.T).fill_diagonal_(torch.inf).argsort(dim=1, descending=True).tolist()
    index = torch.empty(n, k, dtype=torch.int64, device=query.device)
    similarity = torch.empty(n, k, dtype=query.dtype, device=query.device)
    for own, cluster in enumerate(members):
        if len(cluster):
            within = _candidates(members, near[own], probes, k + (diagonal == "drop"))
            index[cluster], similarity[cluster] = _best(query, key, k, cluster, within, diagonal)
    return Neighbours(index, similarity)


def _candidates(members: list[Tensor], near: list[int], probes: int, least: int) -> Tensor:
    """The nodes of the nearest clusters, the own first; of more where there are fewer than ``least``."""
    found: list[Tensor] = []
    for place, cluster in enumerate(near):
        if place >= probes and sum(map(len, found)) >= least:
            break
        found.append(members[cluster])
    return torch.cat(found)


def _best(
    query: Tensor, key: Tensor, k: int, cluster: Tensor, within: Tensor, diagonal: Diagonal
) -> tuple[Tensor, Tensor]:
    """The best k of each node of a cluster, whose nodes come first among the candidates ``within``."""
    keys = key[within]
    block = max(1, BLOCK_BYTES[query.device.type] // (4 * len(within)))
    parts = []
    for start in range(0, len(cluster), block):
        cosine = query[cluster[start : start + block]] @ keys.T
        before = cosine.diagonal(start).clone()
        if diagonal != "keep":
            cosine.diagonal(start).fill_(torch.inf if diagonal == "first" else -torch.inf)
        best = cosine.topk(k, dim=1)
        if diagonal == "first":
            best.values[:, 0] = before
        parts.append((within[best.indices], best.values))
    return torch.cat([found for found, _ in parts]), torch.cat([value for _, value in parts])
