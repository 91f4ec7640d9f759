"""Approximate nearest neighbors by cosine in the nearest clusters only, for graphs too large to compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn.exchange import exchange_neighbors
from afgrl.ops.knn.reference import BLOCK_BYTES, Diagonal, Neighbors
from afgrl.ops.knn.visitors import PROBES, Clustering, Visitors, nearest_centers
from afgrl.ops.sparse.stable import stable_product
from afgrl.ops.storage import filled_rows, row_blocks, unit_table
from afgrl.ops.svd import gram_matrix, leading_eigenvectors

# Of a partition that is made for the search alone: clusters that a query searches, rows per center, and iterations.
FINE_PROBES, FINE_ROWS, FINE_ITERS = 16, 64, 5
WIDTH, ROWS = 128, 16_384  # of ``in_leading_directions``: columns, and rows from which they are computed


def nearest_in_clusters(
    query: Tensor, key: Tensor, k: int, labels: Tensor, centers: Tensor, *, diagonal: Diagonal, probes: int = PROBES,
    shards: Shards = ONE_PROCESS,
) -> Neighbors:  # fmt: skip
    """As ``nearest_neighbors``, with row i of queries and keys belonging to node i, in ``probes`` clusters per query.

    Query i searches its own cluster ``labels[i]`` and those whose ``centers`` its direction is nearest to. If these
    clusters have fewer than k keys in total, it searches all clusters. With several processes, queries and keys are
    those of this one, and ``labels`` those of all nodes.
    """
    if shards.distributed:
        return exchange_neighbors(query, key, k, diagonal, shards, Clustering(labels, centers, probes))
    n = len(labels)
    if query.shape != key.shape or labels.shape != (n,) or n != len(key):
        shapes = ", ".join(str(tuple(table.shape)) for table in (query, key, labels))
        raise UserError(f"Queries, keys and labels must have one row per node, but their shapes are {shapes}.")
    query, key, labels = unit_table(query), unit_table(key), labels.long()
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
        for rows in row_blocks(n, query.device):
            similarity[rows, 0] = (query[rows] * key[rows]).sum(1)
    return Neighbors(index, similarity)


def in_leading_directions(
    query: Tensor, key: Tensor, centers: Tensor, shards: Shards | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Unit queries, unit keys and centers, projected onto the 128 leading principal directions of the keys.

    A search among them takes a quarter of the time that 512 columns take. With several processes, queries and keys are
    those of this one.
    """
    if key.shape[1] <= WIDTH:
        return query, key, centers
    shards = shards or Shards(len(key))
    sample = F.normalize(key[shards.part_of(slice(0, shards.n, max(1, shards.n // ROWS)))])
    basis = leading_eigenvectors(gram_matrix([sample], shards), WIDTH).to(key.dtype)

    def projected(x: Tensor) -> Tensor:
        if shards.distributed:
            return stable_product(F.normalize(x), basis.T)
        return filled_rows(len(x), WIDTH, x.device, lambda rows: F.normalize(x[rows]) @ basis)

    return projected(query), projected(key), centers @ basis


def fine_clusters(n: int) -> int:
    """Clusters of ``fine_partition``."""
    return min(n, round(4 * n**0.5))


def fine_step(n: int) -> int:
    """Every how many rows centers of ``fine_partition`` are computed from."""
    return max(1, n // (FINE_ROWS * fine_clusters(n)))


def fine_partition(key: Tensor, shards: Shards | None = None) -> Clustering:
    """A partition of rows [n, d] for a search in ``FINE_PROBES`` of 4 √n clusters.

    This many clusters make the search for the nearest centers take about as long as that for neighbors in them. The
    rows from which centers are computed are evenly spaced: the same rows give the same bits. With several processes,
    the keys are those of this one, and the labels those of all.
    """
    shards = shards or Shards(len(key))
    n_clusters, sample = fine_clusters(shards.n), slice(0, shards.n, fine_step(shards.n))
    n_sampled = len(range(shards.n)[sample])
    rows = torch.linspace(0, n_sampled - 1, n_clusters, device=key.device).long().unsqueeze(0)
    fitted = run_kmeans(key, n_clusters, unit=True, n_iters=FINE_ITERS, rows=rows, sample=sample, shards=shards)
    labels = shards.gather_labels(fitted.labels, n_clusters)
    return Clustering(labels[0].long(), fitted.centers[0], FINE_PROBES)


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
