"""Agreement of k-means clusters with the classes: NMI, homogeneity and ARI."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.evaluate.matrix import check_inputs, is_sparse, select_rows
from afgrl.ops.kmeans import KMeansResult, run_kmeans, sampled_kmeans
from afgrl.ops.sparse.rows import unit_row_table

BATCH_BYTES = 256 << 20  # memory for the distances to the candidate centers of k-means++
MAX_ITERS = 300
SAMPLE_ITERS = 100  # of 50,000 vectors in 100 clusters: .7 of the time of 300, NMI within .0003


def cluster_scores(
    embedding: Any, y: Any, generator: torch.Generator, *, n_fits: int = 10, n_init: int = 1,
    fitted: np.ndarray | None = None,
) -> dict[str, list[float]]:  # fmt: skip
    """``nmi``, ``homogeneity`` and ``ari`` of ``n_fits`` clusterings of the unit rows, with one cluster per class.

    Each fit is the restart with the lowest inertia of ``n_init`` restarts of k-means++, run until no row changes its
    cluster. With the row numbers ``fitted``, centers are computed from these rows, and each row gets the cluster of its
    nearest center; the scores of those rows alone are too high (by .02 for 50,000 of a million rows in 100 clusters).
    Several restarts are then those of ``sampled_kmeans``.
    """
    x, classes = check_inputs(embedding, y)
    n_classes = int(classes.max()) + 1
    fit = _fit_sparse if is_sparse(x) else _fit_dense
    scores: dict[str, list[float]] = {"nmi": [], "homogeneity": [], "ari": []}
    truth = classes.cpu().numpy()
    for labels in fit(unit_row_table(x), n_classes, n_fits, n_init, generator, fitted):
        predicted = labels.cpu().numpy()
        homogeneity, _, nmi = homogeneity_completeness_v_measure(truth, predicted)  # the V-measure is the NMI
        scores["nmi"].append(float(nmi))
        scores["homogeneity"].append(float(homogeneity))
        scores["ari"].append(float(adjusted_rand_score(truth, predicted)))
    return scores


def _fit_dense(
    x: Tensor, n_clusters: int, n_fits: int, n_init: int, generator: torch.Generator, fitted: np.ndarray | None
) -> Iterator[Tensor]:
    """The clusters of each fit, [n]. Memory limits how many fits run together."""
    if fitted is not None and n_init > 1:
        for _ in range(n_fits):
            yield sampled_kmeans(x, n_clusters, generator, most_rows=len(fitted))
        return
    rows = x if fitted is None else select_rows(x, fitted)
    n_candidates = 2 + int(math.log(n_clusters))  # k-means++ computes a distance from every row to each candidate
    bytes_per_fit = 4 * rows.shape[0] * n_init * 4 * n_candidates
    batch = max(1, BATCH_BYTES // bytes_per_fit)
    for start in range(0, n_fits, batch):
        count = min(batch, n_fits - start)
        result = _run_restarts(rows, n_clusters, count * n_init, generator, is_sample=fitted is not None)
        best = result.inertia.view(count, n_init).argmin(1)
        for each in best + n_init * torch.arange(count, device=x.device):
            if fitted is None:
                yield result.labels[each]
            else:
                yield run_kmeans(x, n_clusters, centers=result.centers[each : each + 1], n_iters=0).labels[0]


def _run_restarts(
    x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator, *, is_sample: bool = False
) -> KMeansResult:
    return run_kmeans(
        x,
        n_clusters,
        n_restarts=n_restarts,
        n_iters=SAMPLE_ITERS if is_sample else MAX_ITERS,
        generator=generator,
        init="k-means++",
        until_converged=not is_sample,
    )


def _fit_sparse(
    x: Tensor, n_clusters: int, n_fits: int, n_init: int, generator: torch.Generator, fitted: np.ndarray | None
) -> Iterator[Tensor]:
    """The same with scikit-learn, whose k-means accepts sparse rows."""
    every = csr_to_scipy(x)
    every.indices, every.indptr = every.indices.astype(np.int32), every.indptr.astype(np.int32)  # KMeans requires int32
    rows, max_iter = (every, MAX_ITERS) if fitted is None else (every[fitted], SAMPLE_ITERS)
    for seed in torch.randint(2**31 - 1, (n_fits,), generator=generator, device=generator.device).tolist():
        model = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, tol=0, random_state=seed).fit(rows)
        yield torch.from_numpy(model.labels_ if fitted is None else model.predict(every))
