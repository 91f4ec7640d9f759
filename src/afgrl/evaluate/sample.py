"""Which of many labeled nodes are scored.

Up to 150,000 labeled nodes, all of them are. Of more, a sample is: scores compare all pairs of nodes, cluster them a
hundred times and fit 180 classifiers, which would take hours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afgrl.data.splits import Splits

MOST_EVALUATED = 150_000
# Judgment: the accuracy on 40,000 test nodes has a standard error of at most .25 points, and Sim@k of 2,500 nodes one
# of at most .01.
N_CLASSIFIED, N_SPLITS, N_QUERIES = 50_000, 5, 2_500
# Of a million planted vectors and 100 classes, centers of 50,000 rows gave NMI .61 and .63, of 150,000 .65 twice.
N_CLUSTERED, N_FITS = 150_000, 3
# That of scikit-learn. On the noisy features of a million planted nodes (100 classes), 1e-5 takes 3.3 times as long,
# and the accuracy is 25.03 % with both.
TOLERANCE = 1e-4
SEED = (0, 1)  # not 0: the first random split, of the same permutation, would have all of them as training nodes


@dataclass(frozen=True, eq=False)
class Sample:
    """Positions among n labeled nodes, ascending."""

    n: int
    classified: np.ndarray
    clustered: np.ndarray  # from these k-means computes its centers; all nodes get a cluster
    queries: np.ndarray  # the nearest nodes of these are searched, among all
    splits: Splits  # the first of them, for ``classified``
    n_fits: int  # of k-means
    tolerance: float = TOLERANCE  # of the classifiers' gradients

    def __str__(self) -> str:
        return (
            f"Of {self.n:,} labeled nodes, {len(self.classified):,} random ones are classified in {len(self.splits)} "
            f"splits, {len(self.clustered):,} give the centers of {self.n_fits} fits of k-means, which assign all, and "
            f"{len(self.queries):,} are compared with all in similarity search."
        )


def draw_sample(splits: Splits, n_fits: int = N_FITS) -> Sample | None:
    """The same sample in every call; None if there are few enough nodes to score all of them."""
    n = splits.roles.shape[1]
    if n <= MOST_EVALUATED:
        return None
    order = np.random.default_rng(SEED).permutation(n)
    classified, clustered, queries = (np.sort(order[:size]) for size in (N_CLASSIFIED, N_CLUSTERED, N_QUERIES))
    roles = splits.roles[:N_SPLITS, classified]
    name = f"{splits.name}, the first {len(roles)}; {len(classified):,} of {n:,} labeled nodes"
    return Sample(n, classified, clustered, queries, Splits(name, roles), min(n_fits, N_FITS))
