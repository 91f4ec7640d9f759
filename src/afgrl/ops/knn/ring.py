"""Nearest neighbors by cosine with rows on several processes: blocks of keys pass around a ring.

Every process compares its queries with each block and keeps the best keys so far. Of equal similarities the lower node
number wins, and a similarity has the same bits whichever rows are compared at once. So the neighbors do not depend on
the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.knn.reference import BLOCK_BYTES, Diagonal, Neighbors
from afgrl.ops.knn.visitors import Clustering, Groups, Visitors, nearest_centers
from afgrl.ops.sparse.stable import stable_product

RING_BYTES = 256 << 20  # of the block that a process sends at once
LOW = 2**32 - 1  # a node number fits 32 bits, as Graph.MAX_NODES says


def ring_neighbors(
    query: Tensor, key: Tensor, k: int, diagonal: Diagonal, shards: Shards, clusters: Clustering | None = None
) -> Neighbors:
    """The ``k`` nodes of all processes nearest to each node of this one, nearest first.

    ``query`` and ``key`` [n_own, d] have the rows of this process. With ``clusters`` a query searches the nearest
    clusters only, as in ``nearest_in_clusters``.
    """
    query, key = F.normalize(query), F.normalize(key)
    visitors = None if clusters is None else _visitors(query, clusters, shards, k + (diagonal == "drop"))
    best = torch.full((len(query), k), torch.iinfo(torch.int64).min, device=query.device)
    for first, keys in _key_blocks(key, shards):
        if clusters is None or visitors is None:
            everything = torch.arange(len(query), device=query.device)
            _keep_best(best, query, everything, keys, torch.arange(len(keys), device=query.device) + first,
                       shards.begin, diagonal)  # fmt: skip
            continue
        groups = Groups.of(clusters.labels[first : first + len(keys)].long(), len(clusters.centers))
        for cluster in range(len(clusters.centers)):
            members = groups.members(cluster)
            if len(members):
                rows = visitors.queries(cluster)
                _keep_best(best, query, rows, keys[members], members + first, shards.begin, diagonal)
    index, similarity = LOW - (best & LOW), _similarity(best)
    if diagonal == "first":  # replaces the infinity that put it first
        similarity[:, 0] = (query * key).sum(1)
    return Neighbors(index, similarity)


def _key_blocks(key: Tensor, shards: Shards) -> Iterator[tuple[int, Tensor]]:
    """Blocks of the keys of all processes, each with the node number of its first key."""
    size = max(1, min(shards.rows_each, RING_BYTES // (4 * key.shape[1])))
    for start in range(0, shards.rows_each, size):
        block = key.new_zeros(size, key.shape[1])
        block[: len(key[start : start + size])] = key[start : start + size]
        for rank, keys in shards.ring(block):
            first = shards.begin_of(rank) + start
            yield first, keys[: max(0, shards.begin_of(rank + 1) - first)]


def _keep_best(
    best: Tensor, query: Tensor, rows: Tensor, keys: Tensor, nodes: Tensor, begin: int, diagonal: Diagonal
) -> None:
    """Compare the queries ``rows`` with ``keys``, which are those of ``nodes``, and update ``best`` [n_own, k] in
    place."""
    if len(keys) == 0 or len(rows) == 0:
        return
    size = max(1, BLOCK_BYTES[query.device.type] // (16 * len(keys)))
    for part in rows.split(size):
        similarity = stable_product(query[part], keys)
        if diagonal != "keep":
            itself = part.unsqueeze(1) + begin == nodes
            similarity = similarity.masked_fill(itself, torch.inf if diagonal == "first" else -torch.inf)
        found = _best_packed(similarity, nodes, best.shape[1])
        best[part] = torch.cat([best[part], found], 1).topk(best.shape[1], dim=1).values


def _best_packed(similarity: Tensor, nodes: Tensor, k: int) -> Tensor:
    """The k largest of ``_packed``, or all of them if there are fewer: [rows, k]."""
    if k >= len(nodes):
        return _packed(similarity, nodes)
    values, at = similarity.topk(k + 1, dim=1)
    found = _packed(values[:, :k], nodes[at[:, :k]])
    tied = values[:, k - 1] == values[:, k]  # which of the equal ones ``topk`` selects is not specified
    if tied.any():
        found[tied] = _packed(similarity[tied], nodes).topk(k, dim=1).values
    return found


def _packed(similarity: Tensor, nodes: Tensor) -> Tensor:
    """One int64 per entry that orders by similarity, and equal ones by descending node number."""
    bits = (similarity + 0.0).view(torch.int32)  # the sum turns -0 into 0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (ordered.to(torch.int64) << 32) | (LOW - nodes)


def _similarity(packed: Tensor) -> Tensor:
    """The similarities in the result of ``_packed``."""
    ordered = (packed >> 32).to(torch.int32)
    return torch.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).view(torch.float32)


def _visitors(query: Tensor, clusters: Clustering, shards: Shards, min_keys: int) -> Visitors:
    sizes = torch.bincount(clusters.labels.long(), minlength=len(clusters.centers))
    own = clusters.labels[shards.begin : shards.end].long()
    if len(query) == 0:
        return Visitors.of(own.new_zeros(0, 1), own, sizes, 0)
    nearest = nearest_centers(query, F.normalize(clusters.centers), own, clusters.probes, stable_product)
    return Visitors.of(nearest, own, sizes, min_keys)
