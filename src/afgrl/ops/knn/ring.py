"""Exact nearest neighbors by cosine with rows on several processes: blocks of keys pass around a ring.

Every process compares its queries with each block and keeps the best keys so far.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.knn.packed import keep_best, no_keys, unpacked
from afgrl.ops.knn.reference import Diagonal, Neighbors

RING_BYTES = 256 << 20  # of the block that a process sends at once


def ring_neighbors(query: Tensor, key: Tensor, k: int, diagonal: Diagonal, shards: Shards) -> Neighbors:
    """The ``k`` nodes of all processes nearest to each node of this one, nearest first.

    ``query`` and ``key`` [n_own, d] have the rows of this process.
    """
    query, key = F.normalize(query), F.normalize(key)
    best = no_keys(len(query), k, query.device)
    search_ring(best, query, torch.arange(len(query), device=query.device), key, diagonal, shards)
    return unpacked(best, query, key, diagonal)


def search_ring(best: Tensor, query: Tensor, rows: Tensor, key: Tensor, diagonal: Diagonal, shards: Shards) -> None:
    """Compare the queries ``rows`` of this process with the keys of all, and update ``best`` [n_own, k] in place."""
    own = torch.arange(shards.begin, shards.end, device=query.device)
    for first, keys in _key_blocks(key, shards):
        nodes = torch.arange(first, first + len(keys), device=query.device)
        keep_best(best, query, own, rows, keys, nodes, diagonal)


def _key_blocks(key: Tensor, shards: Shards) -> Iterator[tuple[int, Tensor]]:
    """Blocks of the keys of all processes, each with the node number of its first key."""
    size = max(1, min(shards.rows_each, RING_BYTES // (4 * key.shape[1])))
    for start in range(0, shards.rows_each, size):
        block = key.new_zeros(size, key.shape[1])
        block[: len(key[start : start + size])] = key[start : start + size]
        for rank, keys in shards.ring(block):
            first = shards.begin_of(rank) + start
            yield first, keys[: max(0, shards.begin_of(rank + 1) - first)]
