"""Approximate nearest neighbors by cosine in the nearest clusters only, for graphs too large to compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

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
    nearest = _nearest_centers(query, F.normalize(centers), labels, probes)
    index = torch.zeros(n, k, dtype=torch.int64, device=query.device)
    similarity = query.new_full((n, k), -torch.inf)

    def search(queries: Tensor, members: Tensor) -> None:
        """Compare queries with the keys of members; a query that is a member has the same position in both."""
        for rows, cosine in _similarities(query, queries, key[members], diagonal):
            best = cosine.topk(min(k, len(members)), dim=1)
            values = torch.cat([similarity[rows], best.values], 1)
            similarity[rows], position = values.topk(k, dim=1)
            index[rows] = torch.cat([index[rows], members[best.indices]], 1).gather(1, position)

    few = sizes[nearest].sum(1) < k + (diagonal == "drop")
    nearest[few] = labels[few].unsqueeze(1)  # they search all other clusters, too
    by_label, ends = labels.argsort(stable=True), sizes.cumsum(0).tolist()
    probed, others = nearest.flatten(), torch.arange(n, device=labels.device).repeat_interleave(nearest.shape[1])
    foreign = probed != labels.repeat_interleave(nearest.shape[1])
    probed, others = probed[foreign], others[foreign]
    by_cluster = others[probed.argsort(stable=True)]
    stops = torch.bincount(probed, minlength=len(centers)).cumsum(0).tolist()
    lonely = few.nonzero().squeeze(1)
    for cluster, (end, stop) in enumerate(zip(ends, stops, strict=True)):
        members = by_label[ends[cluster - 1] if cluster else 0 : end]
        if len(members) == 0:
            continue
        # Members come first among the queries, so that query and key of the same node are on the diagonal.
        queries = [members, by_cluster[stops[cluster - 1] if cluster else 0 : stop]]
        if len(lonely):
            queries.append(lonely[labels[lonely] != cluster])
        search(torch.cat(queries), members)
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


def fine_partition(key: Tensor) -> tuple[Tensor, Tensor]:
    """A partition of rows [n, d] for a search in ``FINE_PROBES`` clusters: labels [n] and centers [4 √n, d].

    This many clusters make the search for the nearest centers take about as long as that for neighbors in them. The
    rows from which centers are computed are evenly spaced: the same rows give the same bits.
    """
    n = len(key)
    n_clusters = fine_clusters(n)
    sample = key[:: max(1, n // (FINE_ROWS * n_clusters))]
    rows = torch.linspace(0, len(sample) - 1, n_clusters, device=key.device).long().unsqueeze(0)
    fitted = run_kmeans(sample, n_clusters, unit=True, n_iters=FINE_ITERS, rows=rows).centers
    assigned = run_kmeans(key, n_clusters, unit=True, n_iters=0, centers=fitted)
    return assigned.labels[0].long(), fitted[0]


def _nearest_centers(query: Tensor, centers: Tensor, labels: Tensor, probes: int) -> Tensor:
    """The own cluster of each query and those with the nearest centers: [n, probes]."""
    size = max(1, BLOCK_BYTES[query.device.type] // (4 * len(centers)))
    found = []
    for rows, own in zip(query.split(size), labels.split(size), strict=True):
        cosine = (rows @ centers.T).scatter_(1, own.unsqueeze(1), torch.inf)
        found.append(cosine.topk(min(probes, len(centers)), dim=1).indices)
    return torch.cat(found)


def searched_clusters(cosine: Tensor, labels: Tensor, sizes: Tensor, probes: int, min_keys: int) -> Tensor:
    """Whether each query searches each cluster, from its ``cosine`` with all centers: [n, clusters] bool."""
    cosine.scatter_(1, labels.long().unsqueeze(1), torch.inf)
    nearest = cosine.topk(min(probes, len(sizes)), dim=1).indices
    searched = torch.zeros_like(cosine, dtype=torch.bool).scatter_(1, nearest, True)
    searched[sizes[nearest].sum(1) < min_keys] = True
    return searched


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
