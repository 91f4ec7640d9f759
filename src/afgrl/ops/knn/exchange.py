"""Nearest neighbors by cosine in clusters, with rows on several processes: each compares the rows of some clusters.

Keys and queries are sent by all-to-all to the process that has their cluster, and the best keys of each query are sent
back. Each cluster is compared once, in one process.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.knn.packed import keep_best, merge_best, no_keys, unpacked
from afgrl.ops.knn.reference import Diagonal, Neighbors
from afgrl.ops.knn.ring import RING_BYTES, search_ring
from afgrl.ops.knn.rounds import Rounds, Units
from afgrl.ops.knn.visitors import Clustering, Groups, nearest_centers, too_few_keys
from afgrl.ops.sparse.stable import stable_product


def exchange_neighbors(
    query: Tensor, key: Tensor, k: int, diagonal: Diagonal, shards: Shards, clusters: Clustering
) -> Neighbors:
    """As ``ring_neighbors``, in the nearest clusters of each query, as in ``nearest_in_clusters``.

    Memory beside the rows of this process: about 65 bytes for each visit of a query to a cluster while visits are
    sorted (measured on a CPU), then 12, and one round. In a round a process receives about ``RING_BYTES`` of vectors,
    and sends as much on average; it sends up to that much to each process if all that they compare is its own. Queries
    whose clusters have too few keys are compared with all keys, which pass around the ring.
    """
    query, key = F.normalize(query), F.normalize(key)
    sizes = torch.bincount(clusters.labels.long(), minlength=len(clusters.centers))
    own = clusters.labels[shards.begin : shards.end].long()
    nearest, few = _nearest(query, clusters, own, sizes, k + (diagonal == "drop"))
    members, visits, rounds = _divided(nearest, few, own, sizes, max(1, RING_BYTES // (4 * key.shape[1])), shards)
    best = no_keys(len(query), k, query.device)
    for units in rounds.units:
        _search_round(best, query, key, members, visits, units, diagonal, shards)
    if shards.any(bool(few.any()), query.device):
        search_ring(best, query, few.nonzero().squeeze(1), key, diagonal, shards)
    return unpacked(best, query, key, diagonal)


def _nearest(query: Tensor, clusters: Clustering, own: Tensor, sizes: Tensor, min_keys: int) -> tuple[Tensor, Tensor]:
    """The clusters that each query searches [n_own, probes], and whether they have too few keys [n_own]."""
    if len(query) == 0:
        return own.new_zeros(0, 1), own.bool()
    nearest = nearest_centers(query, F.normalize(clusters.centers), own, clusters.probes, stable_product)
    return nearest, too_few_keys(nearest, sizes, min_keys)


def _divided(
    nearest: Tensor, few: Tensor, own: Tensor, sizes: Tensor, max_rows: int, shards: Shards
) -> tuple[Groups, Groups, Rounds]:
    """Own keys and own queries by unit of work, and the units of each round."""
    asking = (~few).nonzero().squeeze(1).int()
    cluster, query = nearest[~few].flatten().int(), asking.repeat_interleave(nearest.shape[1])
    n_visits = shards.sum(torch.bincount(cluster, minlength=len(sizes)))
    rounds = Rounds.of(sizes, n_visits, max_rows, shards.size)
    unit, row = rounds.of_keys(own.int(), torch.arange(len(own), dtype=torch.int32, device=own.device))
    members = Groups.of(unit, rounds.n_units, row)
    unit, at = rounds.of_queries(cluster, query)
    return members, Groups.of(unit, rounds.n_units, query[at]), rounds


def _search_round(
    best: Tensor, query: Tensor, key: Tensor, members: Groups, visits: Groups, units: Sequence[Units],
    diagonal: Diagonal, shards: Shards,
) -> None:  # fmt: skip
    """Send keys and queries to the processes that have these ``units``, and merge their answers into ``best``."""
    held = [members.between(*one).long() for one in units]
    keys = torch.cat(shards.swap([key[rows] for rows in held]))
    nodes = torch.cat(shards.swap([rows + shards.begin for rows in held]))
    units_of_keys = torch.cat(shards.swap([members.numbers(*one) for one in units]))
    asked = [visits.between(*one).long().unique(return_inverse=True) for one in units]
    queries = shards.swap([query[rows] for rows, _ in asked])
    own = torch.cat(shards.swap([rows + shards.begin for rows, _ in asked]))
    visited = [torch.stack([at.int(), visits.numbers(*one)], 1) for (_, at), one in zip(asked, units, strict=True)]
    sizes = [len(part) for part in queries]
    at, units_of_queries = _joined(shards.swap(visited), sizes).unbind(1)
    n_units = units[shards.rank][1] - units[shards.rank][0]
    by_key, by_query = Groups.of(units_of_keys, n_units), Groups.of(units_of_queries, n_units, at)
    found, received = no_keys(len(own), best.shape[1], best.device), torch.cat(queries)
    for unit in range(n_units):
        chosen = by_key.members(unit)
        keep_best(found, received, own, by_query.members(unit), keys[chosen], nodes[chosen], diagonal)
    for (rows, _), answer in zip(asked, shards.swap(found.split(sizes)), strict=True):
        merge_best(best, rows, answer)


def _joined(visited: list[Tensor], sizes: list[int]) -> Tensor:
    """Positions among the queries of all processes, from those among the queries of each, beside the units: [v, 2]."""
    before = torch.tensor(sizes).cumsum(0) - torch.tensor(sizes)
    for part, first in zip(visited, before.tolist(), strict=True):
        part[:, 0] += first
    return torch.cat(visited)
