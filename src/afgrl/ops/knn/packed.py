"""The best keys of each query so far, each packed into one int64 that orders by similarity.

Of equal similarities the lower node number wins, and a similarity has the same bits whichever rows are compared at
once. So the best keys depend neither on the order of the comparisons nor on who makes them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.knn.reference import BLOCK_BYTES, Diagonal, Neighbors
from afgrl.ops.sparse.stable import stable_product

LOW = 2**32 - 1  # a node number fits 32 bits, as Graph.MAX_NODES says


def no_keys(n_queries: int, k: int, device: torch.device) -> Tensor:
    """[n_queries, k], less than any key."""
    return torch.full((n_queries, k), torch.iinfo(torch.int64).min, device=device)


def merge_best(best: Tensor, rows: Tensor, found: Tensor) -> None:
    """Update ``best`` [q, k] of different ``rows`` [r] with the packed keys ``found`` [r, any] in place."""
    best[rows] = torch.cat([best[rows], found], 1).topk(best.shape[1], dim=1).values


def keep_best(
    best: Tensor, query: Tensor, own: Tensor, rows: Tensor, keys: Tensor, nodes: Tensor, diagonal: Diagonal
) -> None:
    """Compare the queries ``rows`` with ``keys``, which are those of ``nodes``, and update ``best`` [q, k] in place.

    ``own`` [q] are the nodes of all queries.
    """
    if len(keys) == 0 or len(rows) == 0:
        return
    size = max(1, BLOCK_BYTES[query.device.type] // (16 * len(keys)))
    for part in rows.split(size):
        similarity = stable_product(query[part], keys)
        if diagonal != "keep":
            itself = own[part].unsqueeze(1) == nodes
            similarity = similarity.masked_fill(itself, torch.inf if diagonal == "first" else -torch.inf)
        merge_best(best, part, _best_packed(similarity, nodes, best.shape[1]))


def unpacked(best: Tensor, query: Tensor, key: Tensor, diagonal: Diagonal) -> Neighbors:
    """The neighbors in ``best``, from unit queries and keys of the same nodes."""
    ordered = (best >> 32).to(torch.int32)
    similarity = torch.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).view(torch.float32)
    if diagonal == "first":  # replaces the infinity that put it first
        similarity[:, 0] = (query * key).sum(1)
    return Neighbors(LOW - (best & LOW), similarity)


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
