"""Approximate nearest neighbors by cosine in the nearest clusters only, for graphs too large to compare all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn.reference import BLOCK_BYTES, Diagonal, Neighbors
from afgrl.ops.svd import gram_matrix, leading_eigenvectors

PROBES = 4  # clusters that a query searches
# Of a partition that is made for the search alone: clusters that a query searches, rows per center, and iterations.
FINE_PROBES, FINE_ROWS, FINE_ITERS = 16, 64, 5
WIDTH, ROWS = 128, 16_384  # of ``in_leading_directions``: columns, and rows from which they are computed


class Clustering(NamedTuple):
    """A clustering of the keys, for a search in the nearest clusters only."""

    labels: Tensor  # [n]
    centers: Tensor  # [k, d]
    probes: int = PROBES  # clusters that a query searches


class Groups(NamedTuple):
    """Rows grouped by cluster, in the given order within each."""

    rows: Tensor  # [p]
    ends: list[int]  # one past the last row of each cluster

    @classmethod
    def of(cls, clusters: Tensor, n_clusters: int, rows: Tensor | None = None) -> Groups:
        """Of the rows 0, 1, …, or of ``rows``, which have these clusters."""
        order = clusters.argsort(stable=True)
        ends = torch.bincount(clusters, minlength=n_clusters).cumsum(0).tolist()
        return cls(order if rows is None else rows[order], ends)

    def members(self, cluster: int) -> Tensor:
        return self.rows[self.ends[cluster - 1] if cluster else 0 : self.ends[cluster]]


class Visitors(NamedTuple):
    """Which queries search which clusters."""

    labels: Tensor  # [q] the own cluster of each query
    own: Groups  # the queries of each cluster
    others: Groups  # queries of other clusters that search it
    everywhere: Tensor  # queries whose clusters have too few keys: they search all clusters

    @classmethod
    def of(cls, nearest: Tensor, labels: Tensor, sizes: Tensor, min_keys: int) -> Visitors:
        """From the clusters that queries search [q, probes], their own among them, and the number of keys in each."""
        few = sizes[nearest].sum(1) < min_keys
        nearest = torch.where(few.unsqueeze(1), labels.unsqueeze(1), nearest)
        probed = nearest.flatten()
        query = torch.arange(len(labels), device=labels.device).repeat_interleave(nearest.shape[1])
        foreign = probed != labels.repeat_interleave(nearest.shape[1])
        others = Groups.of(probed[foreign], len(sizes), query[foreign])
        return cls(labels, Groups.of(labels, len(sizes)), others, few.nonzero().squeeze(1))

    def queries(self, cluster: int) -> Tensor:
        """Those of the cluster itself first."""
        found = [self.own.members(cluster), self.others.members(cluster)]
        if len(self.everywhere):
            found.append(self.everywhere[self.labels[self.everywhere] != cluster])
        return torch.cat(found)


def nearest_in_clusters(
    query: Tensor, key: Tensor, k: int, labels: Tensor, centers: Tensor, *, diagonal: Diagonal, probes: int = PROBES
) -> Neighbors:
    """As ``nearest_neighbors``, with row i of queries and keys belonging to node i, in ``probes`` clusters per query.

    Query i searches its own cluster ``labels[i]`` and those whose ``centers`` its direction is nearest to. If these
    clusters have fewer than k keys in total, it searches all clusters.
    """
    n = len(labels)
    if query.shape != key.shape or labels.shape != (n,) or n != len(key):
        shapes = ", ".join(str(tuple(table.shape)) for table in (query, key, labels))
        raise UserError(f"Queries, keys and labels must have one row per node, but their shapes are {shapes}.")
    query, key, labels = F.normalize(query), F.normalize(key), labels.long()
    sizes = torch.bincount(labels, minlength=len(centers))
    nearest = nearest_centers(query, F.normalize(centers), labels, probes)
    visitors = Visitors.of(nearest, labels, sizes, k + (diagonal == "drop"))
    index = torch.zeros(n, k, dtype=torch.int64, device=query.device)
    similarity = query.new_full((n, k), -torch.inf)

    def search(queries: Tensor, members: Tensor) -> None:
        """Compare queries with the keys of members; a query that is a member has the same position in both."""
        for rows, cosine in _similarities(query, queries, key[members], diagonal):
            best = cosine.topk(min(k, len(members)), dim=1)
            values = torch.cat([similarity[rows], best.values], 1)
            similarity[rows], position = values.topk(k, dim=1)
            index[rows] = torch.cat([index[rows], members[best.indices]], 1).gather(1, position)

    for cluster in range(len(centers)):
        # Members come first among the queries, so that query and key of the same node are on the diagonal.
        members = visitors.own.members(cluster)
        if len(members):
            search(visitors.queries(cluster), members)
    if diagonal == "first":  # replaces the infinity that put it first
        similarity[:, 0] = (query * key).sum(1)
    return Neighbors(index, similarity)


def in_leading_directions(query: Tensor, key: Tensor, centers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Unit queries, unit keys and centers, projected onto the 128 leading principal directions of the keys.

    A search among them takes a quarter of the time that 512 columns take.
    """
    if key.shape[1] <= WIDTH:
        return query, key, centers
    query, key = F.normalize(query), F.normalize(key)
    basis = leading_eigenvectors(gram_matrix([key[:: max(1, len(key) // ROWS)]]), WIDTH)
    return query @ basis, key @ basis, centers @ basis


def fine_clusters(n: int) -> int:
    """Clusters of ``fine_partition``."""
    return min(n, round(4 * n**0.5))


def fine_step(n: int) -> int:
    """Every how many rows centers of ``fine_partition`` are computed from."""
    return max(1, n // (FINE_ROWS * fine_clusters(n)))


def fine_partition(key: Tensor) -> Clustering:
    """A partition of rows [n, d] for a search in ``FINE_PROBES`` of 4 √n clusters.

    This many clusters make the search for the nearest centers take about as long as that for neighbors in them. The
    rows from which centers are computed are evenly spaced: the same rows give the same bits.
    """
    n = len(key)
    n_clusters = fine_clusters(n)
    sample = key[:: fine_step(n)]
    rows = torch.linspace(0, len(sample) - 1, n_clusters, device=key.device).long().unsqueeze(0)
    fitted = run_kmeans(sample, n_clusters, unit=True, n_iters=FINE_ITERS, rows=rows).centers
    assigned = run_kmeans(key, n_clusters, unit=True, n_iters=0, centers=fitted)
    return Clustering(assigned.labels[0].long(), fitted[0], FINE_PROBES)


def nearest_centers(
    query: Tensor, centers: Tensor, labels: Tensor, probes: int,
    product: Callable[[Tensor, Tensor], Tensor] = lambda rows, centers: rows @ centers.T,
) -> Tensor:  # fmt: skip
    """The own cluster of each query and those with the nearest centers: [n, probes]."""
    size = max(1, BLOCK_BYTES[query.device.type] // (4 * len(centers)))
    found = []
    for rows, own in zip(query.split(size), labels.split(size), strict=True):
        cosine = product(rows, centers).scatter_(1, own.unsqueeze(1), torch.inf)
        found.append(cosine.topk(min(probes, len(centers)), dim=1).indices)
    return torch.cat(found)


def _similarities(query: Tensor, queries: Tensor, keys: Tensor, diagonal: Diagonal) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of the row numbers ``queries``, and their cosines with all ``keys``: [b] and [b, keys]."""
    if len(keys) == 0:
        return
    size = max(1, BLOCK_BYTES[query.device.type] // (4 * len(keys)))
    for start in range(0, len(queries), size):
        rows = queries[start : start + size]
        cosine = query[rows] @ keys.T
        if diagonal != "keep":
            cosine.diagonal(start).fill_(torch.inf if diagonal == "first" else -torch.inf)
        yield rows, cosine
