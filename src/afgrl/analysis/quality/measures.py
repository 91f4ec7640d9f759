"""The measures of the panel, for the vectors of a run and for vectors that need no training.

Each needs bounded memory: large graphs are sampled, with a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from afgrl.evaluate.matrix import select_rows
from afgrl.evaluate.similarity import cosine_neighbors
from afgrl.evaluate.unlabeled.geometry import collapse, effective_rank, hubness, neighbor_overlap
from afgrl.evaluate.unlabeled.partition import conductances, modularity, size_entropy
from afgrl.graph import Graph
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.sparse.rows import unit_row_table
from afgrl.ops.svd import feature_basis

SEED = 0  # of all samples
N_NEIGHBORS = 10
NEIGHBOR_ROWS = 5_000  # nodes whose neighbors are compared, among themselves
RANK_ROWS = 2_000  # nodes of which the singular values are computed
MAX_WIDTH = 2_048  # columns that k-means clusters as they are; wider and sparse tables are projected first
PROJECTED_WIDTH = 512


@dataclass(frozen=True, eq=False)
class Structure:
    """What is compared between two sets of vectors of the same nodes."""

    neighbors: Tensor  # [rows, k] nearest neighbors of a sample of the nodes, among that sample
    clusters: Tensor  # [n] cluster numbers

    @classmethod
    def of(cls, vectors: Tensor, n_clusters: int) -> Structure:
        """Of vectors [n, d], dense or CSR."""
        unit = unit_row_table(vectors)
        rows = select_rows(unit, sampled_rows(unit.shape[0], NEIGHBOR_ROWS))
        neighbors = cosine_neighbors(rows, min(N_NEIGHBORS, rows.shape[0] - 1))
        return cls(neighbors.cpu(), _clusters(unit, min(n_clusters, unit.shape[0])))

    def stability(self, other: Structure) -> dict[str, float]:
        """The share of common neighbors, and the adjusted Rand index of the clusters (Hubert and Arabie 1985)."""
        return {
            "neighbors": neighbor_overlap(self.neighbors, other.neighbors),
            "clusters": float(adjusted_rand_score(self.clusters.numpy(), other.clusters.numpy())),
        }


def _clusters(unit: Tensor, n_clusters: int) -> Tensor:
    if unit.layout == torch.sparse_csr or unit.shape[1] > MAX_WIDTH:
        unit = unit_row_table(unit @ feature_basis(unit, PROJECTED_WIDTH))
    return sampled_kmeans(unit, n_clusters, torch.Generator(unit.device).manual_seed(SEED)).cpu()


def sampled_rows(n: int, most: int) -> np.ndarray:
    """The numbers of at most that many of n rows, ascending; the same in every call."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(SEED).choice(n, most, replace=False))


def vector_measures(vectors: Tensor, structure: Structure) -> dict[str, float]:
    """Measures of the vectors alone, [n, d] dense or CSR."""
    unit = unit_row_table(vectors)
    collapsed = collapse(unit)
    return {
        "effective_rank": effective_rank(select_rows(unit, sampled_rows(unit.shape[0], RANK_ROWS))),
        "mean_cosine": collapsed.mean_cosine,
        "constant_columns": collapsed.constant_columns,
        "hubness": hubness(structure.neighbors),
    }


def cluster_measures(clusters: Tensor, graph: Graph) -> dict[str, float | None]:
    """Measures of clusters [n] on the edges of their graph. The conductance is the mean over clusters with edges."""
    separate = conductances(clusters, graph)
    known = separate[~separate.isnan()]
    return {
        "modularity": modularity(clusters, graph),
        "conductance": float(known.mean()) if len(known) else None,
        "cluster_entropy": size_entropy(clusters),
    }
