"""Groups of nodes by their vectors, how many there are, and what sets each apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.ops import kmeans, knn
from afgrl.runs import Run

MODULARITY = "modularity on the graph of nearest vectors"
GIVEN = "given"
MOST = 40  # clusters that are tried
COARSE = (2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 34, MOST)
# The best modularity of real graphs lies on a plateau, which begins long before it: fewer clusters that are as good are
# easier to read, and nearer to the classes of the seven benchmark graphs looked at.
AS_GOOD = 0.04  # more of the distance from 1
JUDGED = 3_000  # rows on which each k is tried
NEIGHBORHOOD = 0.02  # of those rows are a row's neighbors: a cluster is larger than that
STARTING = 10_000  # rows on which k-means looks for its first centers
SHOWN = 10  # features and nodes that describe a cluster


@dataclass(frozen=True, eq=False)
class Clustering:
    labels: np.ndarray  # [n] int32, 0 for the largest cluster, 1 for the next, …
    k: int  # clusters, none of them empty
    criterion: str  # by which k was chosen
    tried: tuple[tuple[int, float], ...] = ()  # each k with its modularity


def cluster(vectors: np.ndarray, k: int | None = None, seed: int = 0) -> Clustering:
    """Clusters of the vectors' directions by k-means; fewer than ``k`` where rows coincide.

    Without ``k`` it is chosen by modularity: each of at most 3,000 rows is linked to the 2 % of them nearest to it; the
    share of links that stay within a cluster counts, less the share that would if links were drawn at random. It is 1
    for many groups apart and 0 for one. Taken is the smallest k whose distance from 1 is within 4 % of the least.
    """
    if vectors.ndim != 2 or len(vectors) == 0:
        raise UserError(f"Clusters need a table of vectors, but their shape is {vectors.shape}.")
    if not np.isfinite(vectors).all():
        raise UserError(f"The vectors hold {int((~np.isfinite(vectors)).sum())} value(s) that are NaN or infinite.")
    if k is not None and not 1 <= k <= len(vectors):
        raise UserError(f"{k} clusters were asked for, but 1 to {len(vectors)} are possible.")
    rng = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))
    order = torch.randperm(len(x), generator=rng)
    tried = _modularities(x[order[:JUDGED]], rng) if k is None else {}
    n_clusters = _fewest(tried) if k is None else k
    some = x[order[: max(STARTING, 5 * n_clusters)]]
    starts = kmeans(some, n_clusters, n_restarts=10, n_iters=50, generator=rng, init="k-means++")
    promising = starts.inertia.argsort()[:2]
    found = kmeans(x, n_clusters, centers=starts.centers[promising], n_iters=30)
    labels = _by_size(found.labels[int(found.inertia.argmin())].numpy())
    criterion = GIVEN if k is not None else MODULARITY
    return Clustering(labels, int(labels.max()) + 1, criterion, tuple(sorted(tried.items())))


def _by_size(labels: np.ndarray) -> np.ndarray:
    _, compact, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank[compact]


def _modularities(x: Tensor, rng: torch.Generator) -> dict[int, float]:
    """Of k in coarse steps, then of every k next to the best of them and to the smallest that is as good."""
    if len(x) < 3:
        return {1: 0.0}  # two nodes are no groups
    near = min(max(5, round(NEIGHBORHOOD * len(x))), len(x) - 1)
    neighbors = knn(x, x, near, diagonal="drop").index

    def value(k: int) -> float:
        found = kmeans(x, k, n_restarts=4, n_iters=25, generator=rng, init="k-means++")
        return max(modularity(labels, neighbors) for labels in found.labels)

    tried = {1: 0.0} | {k: value(k) for k in COARSE if k < len(x)}
    for chosen in (_best, _fewest):
        k = chosen(tried)
        below, above = max((i for i in tried if i < k), default=k), min((i for i in tried if i > k), default=k)
        tried |= {i: value(i) for i in range(below + 1, above) if i not in tried}
    return tried


def _best(tried: dict[int, float]) -> int:
    return max(tried, key=lambda k: tried[k])


def _fewest(tried: dict[int, float]) -> int:
    """The smallest k that is as good as the best."""
    return min(k for k, value in tried.items() if 1 - value <= (1 + AS_GOOD) * (1 - tried[_best(tried)]))


def modularity(labels: Tensor, neighbors: Tensor) -> float:
    """Of clusters [n] on the graph that links each row to its ``neighbors`` [n, q] (Newman and Girvan 2004)."""
    n, q = neighbors.shape
    within = (labels[neighbors] == labels.unsqueeze(1)).double().mean()
    ends = (q + torch.bincount(neighbors.flatten(), minlength=n)).double()
    share = torch.zeros(int(labels.max()) + 1, dtype=torch.float64).index_add_(0, labels, ends) / ends.sum()
    return float(within - share.square().sum())


def cluster_run(
    run: Run, k: int | None = None, *, seed: int = 0, features: Tensor | None = None, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Cluster a run's vectors and keep what was found in the run; its description."""
    ids, vectors = run.embedding()
    clustering = cluster(vectors, k, seed)
    description = describe(clustering, features, names, ids, vectors)
    run.save_clusters(ids, clustering.labels, description)
    return description


def describe(
    clustering: Clustering, features: Tensor | None, names: Sequence[str] | None, ids: np.ndarray, vectors: np.ndarray
) -> dict[str, Any]:
    """What clusters.json holds: of each cluster its size, what sets it apart, and its most central nodes.

    ``features`` [n, f] are dense or CSR, or None where they are not known; ``names`` [f] are theirs.
    """
    labels, k = clustering.labels, clustering.k
    distinctive = [[] for _ in range(k)] if features is None or k == 1 else _distinctive(labels, k, features, names)
    central = _central(labels, k, vectors)
    clusters = [
        {
            "cluster": number,
            "size": int((labels == number).sum()),
            "features": distinctive[number],
            "closest": ids[central[number]].tolist(),
        }
        for number in range(k)
    ]
    tried = [{"k": number, "value": round(value, 6)} for number, value in clustering.tried]
    return {"k": k, "criterion": clustering.criterion, "tried": tried, "clusters": clusters}


def _central(labels: np.ndarray, k: int, vectors: np.ndarray) -> list[np.ndarray]:
    """The rows of each cluster whose directions are nearest to its mean direction, nearest first."""
    x = F.normalize(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))
    own = torch.from_numpy(labels.astype(np.int64))
    means = torch.zeros(k, x.shape[1]).index_add_(0, own, x)
    similarity = torch.cat([(rows * means[mine]).sum(1) for rows, mine in _blocks(x, own)]).numpy()
    order = np.lexsort((-similarity, labels))
    starts = np.searchsorted(labels[order], np.arange(k + 1))
    return [order[starts[number] : starts[number + 1]][:SHOWN] for number in range(k)]


def _distinctive(
    labels: np.ndarray, k: int, features: Tensor, names: Sequence[str] | None
) -> list[list[dict[str, Any]]]:
    """For each cluster the features that set it apart most.

    Of sparse features only those are listed that are higher here, since to lack a word is hardly a property.
    """
    if names is not None and len(names) != features.shape[1]:
        raise UserError(f"There are {features.shape[1]} features but {len(names)} names of features.")
    score, here, elsewhere = _differences(labels, k, features)
    score = score if features.layout == torch.sparse_csr else np.abs(score)
    order = np.argsort(-score, axis=1, kind="stable")[:, :SHOWN]
    return [
        [
            {
                "name": str(names[j]) if names is not None else f"feature {j}",
                "here": round(float(here[number, j]), 6),
                "elsewhere": round(float(elsewhere[number, j]), 6),
            }
            for j in order[number]
            if score[number, j] > 0
        ]
        for number in range(k)
    ]


def _differences(labels: np.ndarray, k: int, features: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far each feature's mean in a cluster is from that elsewhere, in standard deviations within both; both means.

    As if one more node, of the kind found elsewhere, were in the cluster: a word that one node of three has, and nobody
    else, then says less than one that all three have. Each [k, f].
    """
    n = len(labels)
    sizes = np.bincount(labels, minlength=k)[:, None].astype(float)  # [k, 1]
    sums, squares = _sums(labels, k, features)
    here, elsewhere = sums / sizes, (sums.sum(0) - sums) / (n - sizes)
    square_elsewhere = (squares.sum(0) - squares) / (n - sizes)
    mean = (sums + elsewhere) / (sizes + 1)
    variance = ((squares + square_elsewhere) / (sizes + 1) - mean**2 + square_elsewhere - elsewhere**2) / 2
    real = variance > 1e-12 * squares.sum(0) / n  # what rounding leaves of a constant is none
    return (mean - elsewhere) / np.sqrt(np.where(real, variance, np.inf)), here, elsewhere


def _sums(labels: np.ndarray, k: int, features: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The sums of each feature and of its square over each cluster, [k, f] float64, without a dense [n, f]."""
    if features.layout == torch.sparse_csr:
        x = csr_to_scipy(features).astype(np.float64)
        belongs = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(k, len(labels)))
        return (belongs @ x).toarray(), (belongs @ x.power(2)).toarray()
    own = torch.from_numpy(labels.astype(np.int64))
    sums, squares = (torch.zeros(k, features.shape[1], dtype=torch.float64) for _ in range(2))
    for rows, mine in _blocks(features, own):
        sums.index_add_(0, mine, rows.double())
        squares.index_add_(0, mine, rows.double().square())
    return sums.numpy(), squares.numpy()


def _blocks(x: Tensor, own: Tensor) -> zip[tuple[Tensor, Tensor]]:
    return zip(x.split(4096), own.split(4096), strict=True)
