"""The clustering readout: what k-means clusters instead of the vectors themselves.

All its tables have a row per node and are filled in blocks of rows, so that they can be in files (``ops.storage``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.rows import unit_row_table
from afgrl.ops.storage import filled_like, filled_rows, in_one_block, row_blocks, unit_table
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors

TELEPORT, N_STEPS = 0.05, 20  # of the average: wider than that of the method ppr, since it hides no neighbor here
FEATURE_WEIGHT = 0.7  # of sparse features
DENSE_FEATURES = 0.2  # share of non-zeros from which features have no part: training loses little of them
MAX_WIDTH = 512  # columns that are averaged; wider tables are first projected onto as many principal directions
MAX_BYTES = 1 << 30  # of all averaged columns: more than 130,000 nodes have fewer, but at least 32
MAX_DIRECTIONS = 256
FEWEST_OWN, OWN_PER_CLUSTER = 8, 2  # directions with their own scales
FEWEST_EVENED, EVENED_PER_CLUSTER = 16, 4
ROWS_TO_COMPARE = 150_000  # that k-means is fitted to, to see which directions tell more
TIE = 0.01  # information that evened directions may have less: a difference within the noise of k-means


@dataclass(frozen=True, eq=False)
class SmoothedFeatures:
    """The part of the features in ``smoothed_directions``, which is the same for all vectors of the same nodes."""

    shape: torch.Size  # of the features
    parts: list[Tensor]  # [n, columns] .7 u(x) and .7 u(PPR x); none of features that have no part


def smoothed_features(features: Tensor, adjacency: Tensor) -> SmoothedFeatures:
    has_part = density(features) < DENSE_FEATURES
    return SmoothedFeatures(features.shape, _smoothed(features, FEATURE_WEIGHT, adjacency) if has_part else [])


def smoothed_directions(vectors: Tensor, features: Tensor | SmoothedFeatures, adjacency: Tensor) -> Tensor:
    """The leading principal directions of ``[u(z) | u(PPR z) | .7 u(x) | .7 u(PPR x)]``: [n, at most 256].

    z are the vectors [n, d] and x the features [n, f], dense or CSR; both are projected onto their leading 512
    directions if they are wider. Features with 20 % non-zeros or more have no part. u scales rows to length 1. PPR is
    the personalized PageRank average over ``adjacency``, the normalized adjacency S of all n nodes as a CSR tensor: it
    removes what distinguishes a node from its neighbors; z keeps what the average loses, and x what training loses. The
    directions are not centered, and have their singular values as scales.
    """
    n = vectors.shape[0]
    if vectors.ndim != 2 or adjacency.shape != (n, n) or len(features.shape) != 2 or features.shape[0] != n:
        shapes = ", ".join(str(tuple(table.shape)) for table in (vectors, features, adjacency))
        raise UserError(
            f"The readout needs vectors [n, d], features [n, f] and an adjacency matrix [n, n], but their shapes are "
            f"{shapes}."
        )
    values = vectors.values() if vectors.layout == torch.sparse_csr else vectors
    if not all(bool(torch.isfinite(values[rows]).all()) for rows in row_blocks(len(values), values.device)):
        raise UserError("The vectors contain values that are NaN or infinite.")
    if isinstance(features, Tensor):
        features = smoothed_features(features, adjacency)
    parts = [*_smoothed(vectors, 1.0, adjacency), *features.parts]
    joined = filled_rows(
        n, sum(part.shape[1] for part in parts), vectors.device,
        lambda rows: torch.cat([part[rows] for part in parts], dim=1),
    )  # fmt: skip
    directions = leading_eigenvectors(_gram_matrix(joined), MAX_DIRECTIONS)
    return filled_rows(n, directions.shape[1], vectors.device, lambda rows: joined[rows] @ directions)


def _smoothed(table: Tensor, weight: float, adjacency: Tensor) -> list[Tensor]:
    """Unit rows and their PageRank average, [n, columns] each."""
    width = min(MAX_WIDTH, max(32, MAX_BYTES // (4 * 4 * table.shape[0])))
    unit = unit_row_table(table)
    if unit.shape[1] > width:
        unit = _projected(unit, width)
    unit = unit.to_dense()
    average = pagerank_average(unit, adjacency, TELEPORT, N_STEPS)
    return [filled_like(unit, lambda x: weight * x), filled_like(average, lambda x: weight * F.normalize(x))]


def _projected(unit: Tensor, width: int) -> Tensor:
    """The unit rows [n, d] on their leading directions, with unit rows again: [n, width]."""
    if unit.layout == torch.sparse_csr or in_one_block(len(unit), unit.device):
        return F.normalize(unit @ feature_basis(unit, width))
    basis = leading_eigenvectors(_gram_matrix(unit), width)  # no further tables of n rows
    return filled_rows(len(unit), basis.shape[1], unit.device, lambda rows: F.normalize(unit[rows] @ basis))


def _gram_matrix(x: Tensor) -> Tensor:
    return gram_matrix(x[rows] for rows in row_blocks(len(x), x.device))


def density(features: Tensor) -> float:
    """The share of non-zeros."""
    values = features.values() if features.layout == torch.sparse_csr else features
    return int(values.count_nonzero()) / max(1, features.shape[0] * features.shape[1])


def clustering_readout(directions: Tensor, adjacency: Tensor, n_clusters: int, seed: int = 0) -> Tensor:
    """What to cluster into ``n_clusters`` clusters, from ``smoothed_directions``: [n, columns].

    Either the first two directions per cluster (at least 8) with their own scales, or the first four (at least 16) with
    the square roots of their scales, so that no single direction decides. Each suits some graphs; the one is taken
    whose clusters tell more about the clusters of neighbors, and the second if they tell equally much.
    """
    own = directions[:, : max(FEWEST_OWN, OWN_PER_CLUSTER * n_clusters)]
    evened = directions[:, : max(FEWEST_EVENED, EVENED_PER_CLUSTER * n_clusters)]
    scales = torch.linalg.vector_norm(evened, dim=0).sqrt().clamp(min=1e-6)
    evened = filled_like(evened, lambda x: x / scales)
    of_own, of_evened = (
        neighbor_information(_clusters_to_compare(unit_table(each), n_clusters, seed), adjacency)
        for each in (own, evened)
    )
    return evened if of_evened >= (1 - TIE) * of_own else own


def _clusters_to_compare(x: Tensor, n_clusters: int, seed: int) -> Tensor:
    generator = torch.Generator(x.device).manual_seed(seed)
    return sampled_kmeans(x, n_clusters, generator, most_rows=ROWS_TO_COMPARE)


def neighbor_information(labels: Tensor, adjacency: Tensor) -> float:
    """The normalized mutual information of the clusters at both ends of an edge, over all edges: 0 to 1.

    0 if a node's cluster says nothing about those of its neighbors. One cluster with nearly all nodes also scores low,
    unlike with the share of edges inside clusters.
    """
    indptr, n_clusters = adjacency.crow_indices(), int(labels.max()) + 1
    counts = torch.zeros(n_clusters**2, dtype=torch.int64, device=labels.device)
    for rows in row_blocks(len(labels), labels.device):
        bounds = indptr[rows.start : rows.stop + 1]
        ends = adjacency.col_indices()[bounds[0] : bounds[-1]]
        starts = torch.repeat_interleave(torch.arange(rows.start, rows.stop, device=ends.device), bounds.diff())
        is_edge = starts != ends  # S has loops
        pairs = labels[starts[is_edge]] * n_clusters + labels[ends[is_edge]]
        counts += torch.bincount(pairs, minlength=n_clusters**2)
    joint = counts.double().view(n_clusters, n_clusters) / counts.sum().clamp(min=1)
    start, end, both = (torch.special.entr(shares).sum() for shares in (joint.sum(1), joint.sum(0), joint))
    total = float(start + end)
    return 2 * (total - float(both)) / total if total else 0.0
