"""Exact nearest neighbors among keys that are not in memory together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.knn.reference import Neighbors


def nearest_in_blocks(query: Tensor, key_blocks: Iterable[Tensor], k: int) -> Neighbors:
    """As ``nearest_neighbors``, with keys in blocks of rows [b, d]; fewer than ``k`` columns if there are fewer keys.

    Memory: the queries, the best ``k`` so far, and one block.
    """
    index = torch.empty(len(query), 0, dtype=torch.int64, device=query.device)
    similarity, first = query.new_empty(len(query), 0), 0
    for keys in key_blocks:
        found = nearest_neighbors(query, keys, min(k, len(keys)))
        every = torch.cat([similarity, found.similarity], 1)
        similarity, at = every.topk(min(k, every.shape[1]), dim=1)
        index = torch.cat([index, found.index + first], 1).gather(1, at)
        first += len(keys)
    return Neighbors(index, similarity)
