"""The numerics: for each a public function that checks and dispatches, and a reference you can read."""

from afgrl.ops.kmeans import Clusters, kmeans
from afgrl.ops.knn import Neighbours, knn
from afgrl.ops.pairloss import pair_loss, pair_matrix
from afgrl.ops.propagate import Propagated, propagate, smoothing, unit_rows

__all__ = [
    "Clusters",
    "Neighbours",
    "Propagated",
    "kmeans",
    "knn",
    "pair_loss",
    "pair_matrix",
    "propagate",
    "smoothing",
    "unit_rows",
]
