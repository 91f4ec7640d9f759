"""Nearest neighbors by cosine, looked for in the nearest clusters only: for graphs too large to compare all."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.knn import BLOCK_BYTES, Diagonal, Neighbors

PROBES = 4  # clusters that a query looks into


def knn_in_clusters(
    query: Tensor, key: Tensor, k: int, labels: Tensor, centers: Tensor, *, diagonal: Diagonal, probes: int = PROBES
) -> Neighbors:
    """As ``knn`` of equally many queries and keys, but query i finds only the keys of its own cluster ``labels[i]``
    and of those that its direction is nearest to by their ``centers``, ``probes`` in all; or all keys, where these
    clusters hold too few."""
    n = len(labels)
    if query.shape != key.shape or labels.shape != (n,) or n != len(key):
        raise UserError("Queries, keys and labels must be of the same nodes.")
    query, key = F.normalize(query), F.normalize(key)
    asks = _looks_into(query, labels, centers, probes, k + (diagonal == "drop"))
    index = torch.zeros(n, k, dtype=torch.int64, device=query.device)
    similarity = query.new_full((n, k), -torch.inf)
    for cluster, asked in enumerate(asks.T):
        own = (labels == cluster).nonzero().squeeze(1)
        # The members ask first: query and key of a node then meet on the diagonal.
        asking = torch.cat([own, (asked & (labels != cluster)).nonzero().squeeze(1)])
        keys = key[own]
        for rows, cosine in _blocks(query, asking, keys, diagonal):
            best = cosine.topk(min(k, len(own)), dim=1)
            values = torch.cat([similarity[rows], best.values], 1)
            similarity[rows], place = values.topk(k, dim=1)
            index[rows] = torch.cat([index[rows], own[best.indices]], 1).gather(1, place)
    if diagonal == "first":  # where it stands for itself, so that nothing is nearer
        similarity[:, 0] = (query * key).sum(1)
    return Neighbors(index, similarity)


def _looks_into(query: Tensor, labels: Tensor, centers: Tensor, probes: int, least: int) -> Tensor:
    """Which clusters each query looks into: [n, clusters]."""
    near = query @ F.normalize(centers).T
    near.scatter_(1, labels.long().unsqueeze(1), torch.inf)
    nearest = near.topk(min(probes, len(centers)), dim=1).indices
    asks = torch.zeros_like(near, dtype=torch.bool).scatter_(1, nearest, True)
    sizes = torch.bincount(labels, minlength=len(centers))
    asks[sizes[nearest].sum(1) < least] = True
    return asks


def _blocks(query: Tensor, asking: Tensor, keys: Tensor, diagonal: Diagonal) -> Iterator[tuple[Tensor, Tensor]]:
    """The queries of these numbers, some at a time, and their cosines with all ``keys``."""
    if len(keys) == 0:
        return
    size = max(1, BLOCK_BYTES[query.device.type] // (4 * len(keys)))
    for start in range(0, len(asking), size):
        rows = asking[start : start + size]
        cosine = query[rows] @ keys.T
        if diagonal != "keep":
            cosine.diagonal(start).fill_(torch.inf if diagonal == "first" else -torch.inf)
        yield rows, cosine
