"""A clustering of the keys of a search, and which queries search which of its clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from afgrl.ops.knn.reference import BLOCK_BYTES

PROBES = 4  # clusters that a query searches
# Centers that a query is compared with on a CPU, so that its time does not grow with the graph.
NEAR_CENTERS = 1024


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
        return self.between(cluster, cluster + 1)

    def between(self, first: int, last: int) -> Tensor:
        """The rows of the clusters ``first`` to ``last - 1``."""
        return self.rows[self._begin(first) : self._begin(last)]

    def numbers(self, first: int, last: int) -> Tensor:
        """The cluster of each of these rows, counted from ``first``: int32."""
        sizes = [self._begin(number + 1) - self._begin(number) for number in range(first, last)]
        numbers = torch.arange(last - first, dtype=torch.int32, device=self.rows.device)
        return numbers.repeat_interleave(torch.tensor(sizes, dtype=torch.int64, device=self.rows.device))

    def _begin(self, cluster: int) -> int:
        return self.ends[cluster - 1] if cluster else 0


def too_few_keys(nearest: Tensor, sizes: Tensor, min_keys: int) -> Tensor:
    """Which queries search all clusters, from the clusters [q, probes] that they would search: [q] bool."""
    return sizes[nearest].sum(1) < min_keys


def compared_centers(n_centers: int, device: str) -> int:
    """How many centers ``nearest_centers`` compares a query with, on this type of device."""
    return min(n_centers, NEAR_CENTERS) if device == "cpu" else n_centers


Product = Callable[[Tensor, Tensor], Tensor]


def _plain_product(left: Tensor, right: Tensor) -> Tensor:
    return left @ right.T


def nearest_centers(
    query: Tensor, centers: Tensor, labels: Tensor, probes: int, product: Product = _plain_product
) -> Tensor:
    """The own cluster of each query and those with the nearest centers: [n, probes].

    On a CPU the other clusters are chosen among the ``NEAR_CENTERS`` nearest to the center of the own one.
    """
    probes = min(probes, len(centers))
    if compared_centers(len(centers), query.device.type) < len(centers):
        return _nearest_of_near(query, centers, labels, probes, product)
    size = max(1, BLOCK_BYTES[query.device.type] // (4 * len(centers)))
    found = []
    for rows, own in zip(query.split(size), labels.split(size), strict=True):
        cosine = product(rows, centers).scatter_(1, own.unsqueeze(1), torch.inf)
        found.append(cosine.topk(probes, dim=1).indices)
    return torch.cat(found)


def _nearest_of_near(query: Tensor, centers: Tensor, labels: Tensor, probes: int, product: Product) -> Tensor:
    groups = Groups.of(labels, len(centers))
    found = labels.new_empty(len(query), probes)
    for numbers in torch.arange(len(centers)).split(NEAR_CENTERS):
        cosine = product(centers[numbers], centers).scatter_(1, numbers.unsqueeze(1), torch.inf)
        for number, near in zip(numbers.tolist(), cosine.topk(NEAR_CENTERS, dim=1).indices, strict=True):
            rows = groups.members(number)
            if len(rows):
                cosine = product(query.index_select(0, rows), centers.index_select(0, near))
                cosine[:, 0] = torch.inf  # the own cluster
                found.index_copy_(0, rows, near[cosine.topk(probes, dim=1).indices])
    return found
