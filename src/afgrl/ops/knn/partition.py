"""A partition of many rows into small clusters, for a search in the nearest of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.kmeans.sharded import exact_means, round_exactly
from afgrl.ops.knn.reference import BLOCK_BYTES
from afgrl.ops.knn.visitors import Clustering, Groups
from afgrl.ops.sparse.stable import stable_product

FINE_PROBES = 8  # clusters that a query searches
CPU_ROWS = 1024  # of a cluster: what a CPU compares per query is the same for all sizes
FINE_ROWS, FINE_ITERS = 64, 5  # of k-means: rows per center, and iterations
LARGEST = 4  # times the mean rows of a cluster; those of larger ones are nearly equal, as of nodes without features


def fine_clusters(n: int, device: str) -> int:
    """About as many clusters as ``fine_partition`` has on this type of device.

    On a GPU as many as rows per cluster, since it compares fast, and each cluster costs the launches of its kernels. On
    a CPU more and smaller ones, of as many rows for all sizes.
    """
    return max(1, round(n**0.5 if device == "cuda" else n / CPU_ROWS))


def fine_partition(key: Tensor, coarse: Clustering, shards: Shards | None = None) -> Clustering:
    """The rows [n, d] in ``fine_clusters``, which divide the clusters of ``coarse``.

    K-means runs inside each cluster of ``coarse``, on evenly spaced rows: the whole partition takes less time than one
    comparison of all rows with all centers. With several processes, the keys are those of this one, and the labels
    those of all. The bits do not depend on the number of processes.
    """
    shards = shards or Shards(len(key))
    n_clusters = fine_clusters(shards.n, key.device.type)
    step = max(1, shards.n // (FINE_ROWS * n_clusters))
    sampled = coarse.labels[::step].long()
    parts = _parts(coarse, sampled, n_clusters)
    ends = parts.cumsum(0).tolist()
    centers = _initial_centers(key, coarse, sampled, ends, step, shards)
    x = F.normalize(key[shards.part_of(slice(0, shards.n, step))])
    own = Groups.of(sampled[-(-shards.begin // step) :][: len(x)], len(parts))
    rounded = round_exactly(x)
    for _ in range(FINE_ITERS):
        labels = _assigned(x, own, centers, ends)
        centers = exact_means(rounded, labels.unsqueeze(0), centers.unsqueeze(0), shards)[0]
    members = Groups.of(coarse.labels[shards.begin : shards.end].long(), len(parts))
    labels = shards.gather_labels(_assigned(key, members, centers, ends).unsqueeze(0), len(centers))[0].long()
    return _divided(labels, centers, LARGEST * -(-shards.n // n_clusters))


def _parts(coarse: Clustering, sampled: Tensor, n_clusters: int) -> Tensor:
    """How many clusters each of ``coarse`` is divided into: [c], in proportion to its rows in the sample."""
    counts = torch.bincount(sampled, minlength=len(coarse.centers))
    share = n_clusters / max(1, len(sampled))
    return torch.minimum((counts * share).round().long(), counts).clamp(min=1)


def _initial_centers(
    key: Tensor, coarse: Clustering, sampled: Tensor, ends: list[int], step: int, shards: Shards
) -> Tensor:
    """Evenly spaced rows of the sample of each cluster of ``coarse``; its center, if the sample has none."""
    groups, first = Groups.of(sampled, len(ends)), 0
    centers = torch.empty(ends[-1], key.shape[1], dtype=key.dtype, device=key.device)
    rows, places = [], []
    for number, end in enumerate(ends):
        members = groups.members(number)
        if len(members):
            rows.append(members[torch.linspace(0, len(members) - 1, end - first, device=key.device).long()])
            places.append(torch.arange(first, end, device=key.device))
        else:
            centers[first:end] = F.normalize(coarse.centers[number : number + 1])
        first = end
    centers[torch.cat(places)] = F.normalize(shards.take(key, step * torch.cat(rows)))
    return centers


def _assigned(x: Tensor, groups: Groups, centers: Tensor, ends: list[int]) -> Tensor:
    """The nearest center of each row, of those that its group is divided into: [rows]."""
    labels = torch.empty(len(x), dtype=torch.int64, device=x.device)
    half, first = centers.square().sum(1) / 2, 0
    for number, end in enumerate(ends):
        size = max(1, BLOCK_BYTES[x.device.type] // (4 * max(end - first, x.shape[1])))
        for rows in groups.members(number).split(size):
            product = stable_product(F.normalize(x.index_select(0, rows)), centers[first:end])
            labels[rows] = first + (product - half[first:end]).argmax(1)
        first = end
    return labels


def _divided(labels: Tensor, centers: Tensor, most: int) -> Clustering:
    """The partition with clusters of at most ``most`` rows: larger ones become several with the same center."""
    sizes = torch.bincount(labels, minlength=len(centers))
    further = (sizes - 1).clamp(min=0) // most  # clusters that each becomes beside itself
    if further.any():
        order = labels.argsort(stable=True)
        grouped = labels[order]
        part = (torch.arange(len(labels), device=labels.device) - (sizes.cumsum(0) - sizes)[grouped]) // most
        new = len(centers) - 1 + (further.cumsum(0) - further)[grouped] + part
        labels = labels.scatter(0, order, torch.where(part > 0, new, grouped))
        centers = torch.cat([centers, centers.repeat_interleave(further, 0)])
    return Clustering(labels, centers, FINE_PROBES)
