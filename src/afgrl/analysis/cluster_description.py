"""What distinguishes clusters: their sizes, features and most central nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError

MAX_LISTED = 10  # features and nodes per cluster
BLOCK_ROWS = 4096


def describe_clusters(
    labels: np.ndarray, vectors: np.ndarray, ids: np.ndarray, features: Tensor, names: Sequence[str] | None
) -> list[dict[str, Any]]:
    """One entry per cluster: its size, its distinctive features, and its most central nodes.

    ``labels`` [n] are 0…k-1, ``features`` [n, f] are dense or CSR, and ``names`` [f] are the names of the features.
    """
    if names is not None and len(names) != features.shape[1]:
        raise UserError(f"There are {features.shape[1]} features, but {len(names)} names of features.")
    k = int(labels.max()) + 1
    distinctive = _distinctive_features(labels, k, features, names) if k > 1 else [[]]
    central = _central_rows(labels, k, vectors)
    return [
        {
            "cluster": number,
            "size": int((labels == number).sum()),
            "features": distinctive[number],
            "closest": ids[central[number]].tolist(),
        }
        for number in range(k)
    ]


def _central_rows(labels: np.ndarray, k: int, vectors: np.ndarray) -> list[np.ndarray]:
    """For each cluster, the rows with the highest cosine to its mean direction, highest first."""
    x = F.normalize(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))
    cluster = torch.from_numpy(labels.astype(np.int64))
    means = torch.zeros(k, x.shape[1]).index_add_(0, cluster, x)
    similarity = torch.cat([(rows * means[own]).sum(1) for rows, own in _blocks(x, cluster)]).numpy()
    order = np.lexsort((-similarity, labels))
    starts = np.searchsorted(labels[order], np.arange(k + 1))
    return [order[starts[number] : starts[number + 1]][:MAX_LISTED] for number in range(k)]


def _distinctive_features(
    labels: np.ndarray, k: int, features: Tensor, names: Sequence[str] | None
) -> list[list[dict[str, Any]]]:
    """For each cluster, the features whose means differ most from those of the other nodes.

    For sparse features, only higher means are listed: the absence of a word describes little.
    """
    difference, here, elsewhere = _standardized_differences(labels, k, features)
    score = difference if features.layout == torch.sparse_csr else np.abs(difference)
    order = np.argsort(-score, axis=1, kind="stable")[:, :MAX_LISTED]
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


def _standardized_differences(
    labels: np.ndarray, k: int, features: Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean in the cluster - mean elsewhere) / standard deviation within both, and the two means; each [k, f].

    The cluster is extended by one average node from elsewhere, so that a word of one node out of three scores lower
    than a word that all three have, even if no other node has either.
    """
    n = len(labels)
    sizes = np.bincount(labels, minlength=k)[:, None].astype(float)  # [k, 1]
    sums, squares = _sums(labels, k, features)
    here, elsewhere = sums / sizes, (sums.sum(0) - sums) / (n - sizes)
    square_elsewhere = (squares.sum(0) - squares) / (n - sizes)
    mean = (sums + elsewhere) / (sizes + 1)
    variance = ((squares + square_elsewhere) / (sizes + 1) - mean**2 + square_elsewhere - elsewhere**2) / 2
    varies = variance > 1e-12 * squares.sum(0) / n  # less is the rounding error of a constant feature
    return (mean - elsewhere) / np.sqrt(np.where(varies, variance, np.inf)), here, elsewhere


def _sums(labels: np.ndarray, k: int, features: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Sums of each feature and of its square per cluster, [k, f] float64, without a dense copy of sparse features."""
    if features.layout == torch.sparse_csr:
        x = csr_to_scipy(features).astype(np.float64)
        members = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(k, len(labels)))
        return (members @ x).toarray(), (members @ x.power(2)).toarray()
    cluster = torch.from_numpy(labels.astype(np.int64))
    sums, squares = (torch.zeros(k, features.shape[1], dtype=torch.float64) for _ in range(2))
    for rows, own in _blocks(features, cluster):
        sums.index_add_(0, own, rows.double())
        squares.index_add_(0, own, rows.double().square())
    return sums.numpy(), squares.numpy()


def _blocks(x: Tensor, cluster: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(x.split(BLOCK_ROWS), cluster.split(BLOCK_ROWS), strict=True)
