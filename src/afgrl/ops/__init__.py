"""The numerics: for each a public function that checks and dispatches, and a reference you can read."""

from afgrl.ops.adam import Adam, lerp_all
from afgrl.ops.aside import Aside
from afgrl.ops.contrast import info_nce
from afgrl.ops.dispatch import Precision, is_fast
from afgrl.ops.frozen_prelu import Norm, frozen_prelu
from afgrl.ops.kmeans import Clusters, kmeans, random_rows
from afgrl.ops.knn import Neighbors, knn
from afgrl.ops.links import Links, edge_places, gather, gcn_weights, links, links_of
from afgrl.ops.lookup import lookup
from afgrl.ops.pairloss import PairMatrix, pair_loss, pair_matrix
from afgrl.ops.propagate import Propagated, features, hops, propagate, smoothing, unit_rows
from afgrl.ops.reasons import ADJACENT, SAME_CLUSTER, reasons
from afgrl.ops.skipgram import negative_nodes, noise, skipgram_loss
from afgrl.ops.sparse_product import SparseBlocks
from afgrl.ops.walks import Neighborhoods, biased_walks, neighborhoods, uniform_walks

__all__ = [
    "ADJACENT",
    "SAME_CLUSTER",
    "Adam",
    "Aside",
    "Clusters",
    "Links",
    "Neighborhoods",
    "Neighbors",
    "Norm",
    "PairMatrix",
    "Precision",
    "Propagated",
    "SparseBlocks",
    "biased_walks",
    "edge_places",
    "features",
    "frozen_prelu",
    "gather",
    "gcn_weights",
    "hops",
    "info_nce",
    "is_fast",
    "kmeans",
    "knn",
    "lerp_all",
    "links",
    "links_of",
    "lookup",
    "negative_nodes",
    "neighborhoods",
    "noise",
    "pair_loss",
    "pair_matrix",
    "propagate",
    "random_rows",
    "reasons",
    "skipgram_loss",
    "smoothing",
    "uniform_walks",
    "unit_rows",
]
