"""The numerics: for each a public function that checks and dispatches, and a reference you can read."""

from afgrl.ops.adam import Adam, lerp_all
from afgrl.ops.aside import Aside
from afgrl.ops.dispatch import Precision, is_fast
from afgrl.ops.frozen_prelu import Norm, frozen_prelu
from afgrl.ops.kmeans import Clusters, kmeans, random_rows
from afgrl.ops.knn import Neighbours, knn
from afgrl.ops.pairloss import PairMatrix, pair_loss, pair_matrix
from afgrl.ops.propagate import Propagated, hops, propagate, smoothing, unit_rows
from afgrl.ops.reasons import ADJACENT, SAME_CLUSTER, reasons
from afgrl.ops.sparse_product import SparseBlocks

__all__ = [
    "ADJACENT",
    "SAME_CLUSTER",
    "Adam",
    "Aside",
    "Clusters",
    "Neighbours",
    "Norm",
    "PairMatrix",
    "Precision",
    "Propagated",
    "SparseBlocks",
    "frozen_prelu",
    "hops",
    "is_fast",
    "kmeans",
    "knn",
    "lerp_all",
    "pair_loss",
    "pair_matrix",
    "propagate",
    "random_rows",
    "reasons",
    "smoothing",
    "unit_rows",
]
