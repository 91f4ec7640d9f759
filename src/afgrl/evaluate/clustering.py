"""Agreement of k-means clusters with the classes: NMI, homogeneity and ARI."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.evaluate.matrix import check_inputs, is_sparse
from afgrl.ops.kmeans import KMeansResult, run_kmeans
from afgrl.ops.sparse.rows import unit_rows

BATCH_BYTES = 256 << 20  # memory for the distances to the candidate centers of k-means++
MAX_ITERS = 300


def cluster_scores(
    embedding: Any, y: Any, generator: torch.Generator, *, n_fits: int = 10, n_init: int = 1
) -> dict[str, list[float]]:
    """``nmi``, ``homogeneity`` and ``ari`` of ``n_fits`` clusterings of the unit rows, with one cluster per class.

    Each fit is the restart with the lowest inertia of ``n_init`` restarts of k-means++, run until no row changes its
    cluster.
    """
    x, classes = check_inputs(embedding, y)
    n_classes = int(classes.max()) + 1
    fit = _fit_sparse if is_sparse(x) else _fit_dense
    labels = fit(unit_rows(x), n_classes, n_fits, n_init, generator)
    scores: dict[str, list[float]] = {"nmi": [], "homogeneity": [], "ari": []}
    truth = classes.cpu().numpy()
    for predicted in labels.cpu().numpy():
        homogeneity, _, nmi = homogeneity_completeness_v_measure(truth, predicted)  # the V-measure is the NMI
        scores["nmi"].append(float(nmi))
        scores["homogeneity"].append(float(homogeneity))
        scores["ari"].append(float(adjusted_rand_score(truth, predicted)))
    return scores


def _fit_dense(x: Tensor, n_clusters: int, n_fits: int, n_init: int, generator: torch.Generator) -> Tensor:
    """The clusters of each fit, [n_fits, n]. Memory limits how many fits run together."""
    n_candidates = 2 + int(math.log(n_clusters))  # k-means++ computes a distance from every row to each candidate
    bytes_per_fit = 4 * x.shape[0] * n_init * 4 * n_candidates
    batch = max(1, BATCH_BYTES // bytes_per_fit)
    labels = []
    for start in range(0, n_fits, batch):
        count = min(batch, n_fits - start)
        result = _run_restarts(x, n_clusters, count * n_init, generator)
        best = result.inertia.view(count, n_init).argmin(1)
        labels.append(result.labels.view(count, n_init, -1)[torch.arange(count, device=x.device), best])
    return torch.cat(labels)


def _run_restarts(x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator) -> KMeansResult:
    return run_kmeans(
        x,
        n_clusters,
        n_restarts=n_restarts,
        n_iters=MAX_ITERS,
        generator=generator,
        init="k-means++",
        until_converged=True,
    )


def _fit_sparse(x: Tensor, n_clusters: int, n_fits: int, n_init: int, generator: torch.Generator) -> Tensor:
    """The same with scikit-learn, whose k-means accepts sparse rows."""
    rows = csr_to_scipy(x)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)  # KMeans requires int32
    seeds = torch.randint(2**31 - 1, (n_fits,), generator=generator, device=generator.device).tolist()
    fits = [
        KMeans(n_clusters, n_init=n_init, max_iter=MAX_ITERS, tol=0, random_state=seed).fit(rows).labels_
        for seed in seeds
    ]
    return torch.from_numpy(np.stack(fits)).to(x.device, torch.int64)
