"""The number of clusters, chosen by modularity on a nearest-neighbor graph."""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn import nearest_neighbors

COARSE_GRID = (2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40)
# On real graphs the modularity reaches a plateau long before its maximum. Fewer clusters of nearly the same modularity
# are easier to read, and closer to the number of classes on the seven benchmark graphs where this was compared.
TOLERANCE = 0.04  # how much larger the distance from 1 may be, relative to the smallest distance
NEIGHBOR_SHARE = 0.02  # of the rows are linked to each row; smaller clusters are not separated


def best_modularities(x: Tensor, generator: torch.Generator) -> dict[int, float]:
    """For each k that is tried, the highest modularity of four k-means restarts on unit rows [n, d].

    Each row is linked to the 2 % of the rows nearest to it. The modularity is the share of links within clusters minus
    the share that random links would have: close to 1 for many separate groups, 0 for one cluster. First the coarse
    grid is tried, then every k next to the best of it and to the smallest that is nearly as good.
    """
    if len(x) < 3:
        return {1: 0.0}  # two nodes are one cluster
    n_neighbors = min(max(5, round(NEIGHBOR_SHARE * len(x))), len(x) - 1)
    neighbors = nearest_neighbors(x, x, n_neighbors, diagonal="drop").index

    def best_of_restarts(k: int) -> float:
        restarts = run_kmeans(x, k, n_restarts=4, n_iters=25, generator=generator, init="k-means++")
        return max(modularity(labels, neighbors) for labels in restarts.labels)

    tried = {1: 0.0} | {k: best_of_restarts(k) for k in COARSE_GRID if k < len(x)}
    for choose in (_best, fewest_clusters):
        k = choose(tried)
        below, above = max((i for i in tried if i < k), default=k), min((i for i in tried if i > k), default=k)
        tried |= {i: best_of_restarts(i) for i in range(below + 1, above) if i not in tried}
    return tried


def fewest_clusters(tried: dict[int, float]) -> int:
    """The smallest k whose modularity is nearly the best: its distance from 1 is at most 4 % larger."""
    return min(k for k, value in tried.items() if 1 - value <= (1 + TOLERANCE) * (1 - tried[_best(tried)]))


def modularity(labels: Tensor, neighbors: Tensor) -> float:
    """Modularity (Newman and Girvan 2004) of clusters [n] on the graph that links each row to ``neighbors`` [n, q]."""
    n, q = neighbors.shape
    within = (labels[neighbors] == labels.unsqueeze(1)).double().mean()
    degree = (q + torch.bincount(neighbors.flatten(), minlength=n)).double()
    share = torch.zeros(int(labels.max()) + 1, dtype=torch.float64).index_add_(0, labels, degree) / degree.sum()
    return float(within - share.square().sum())


def _best(tried: dict[int, float]) -> int:
    return max(tried, key=lambda k: tried[k])
