"""The clustering readout: what k-means clusters instead of the vectors themselves."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.rows import unit_rows
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors

TELEPORT, N_STEPS = 0.05, 20  # of the average: wider than that of the method ppr, since it hides no neighbor here
MAX_WIDTH = 512  # columns that are averaged; wider vectors are first projected onto as many principal directions
MAX_DIRECTIONS = 256
FEWEST_DIRECTIONS, DIRECTIONS_PER_CLUSTER = 8, 2  # that are clustered
TIE = 0.005  # relative difference of information that says nothing


def smoothed_directions(vectors: Tensor, adjacency: Tensor) -> Tensor:
    """The leading principal directions of ``[u(z) | u(PPR(z))]`` for vectors z [n, d]: [n, at most 256].

    u scales rows to length 1, so that both parts count the same. PPR is the personalized PageRank average over
    ``adjacency``, the normalized adjacency S of all n nodes as a CSR tensor: it removes what distinguishes a node from
    its neighbors, and z keeps what the average loses. The directions are not centered, and have their singular values
    as scales.
    """
    if vectors.ndim != 2 or adjacency.shape != (len(vectors), len(vectors)):
        shapes = f"{tuple(vectors.shape)} and {tuple(adjacency.shape)}"
        raise UserError(
            f"The readout needs vectors [n, d] and an adjacency matrix [n, n], but their shapes are {shapes}."
        )
    values = vectors.values() if vectors.layout == torch.sparse_csr else vectors
    if not bool(torch.isfinite(values).all()):
        raise UserError("The vectors contain values that are NaN or infinite.")
    z = unit_rows(vectors)
    if z.shape[1] > MAX_WIDTH:
        z = F.normalize(z @ feature_basis(z, MAX_WIDTH))
    z = z.to_dense()
    table = torch.cat([z, F.normalize(pagerank_average(z, adjacency, TELEPORT, N_STEPS))], dim=1)  # [n, 2d]
    return table @ leading_eigenvectors(gram_matrix([table]), MAX_DIRECTIONS)


def clustering_readout(directions: Tensor, adjacency: Tensor, n_clusters: int, seed: int = 0) -> Tensor:
    """What to cluster into ``n_clusters`` clusters, from ``smoothed_directions``: [n, two per cluster, at least 8].

    Either the directions with their own scales, or with the square roots of their scales, so that no single direction
    decides. Each suits some graphs; the one is taken whose clusters tell more about the clusters of neighbors, and the
    second if both tell the same.
    """
    own = directions[:, : max(FEWEST_DIRECTIONS, DIRECTIONS_PER_CLUSTER * n_clusters)]
    evened = own / torch.linalg.vector_norm(own, dim=0).sqrt().clamp(min=1e-6)
    generator = torch.Generator(directions.device).manual_seed(seed)
    of_own, of_evened = (
        neighbor_information(sampled_kmeans(F.normalize(each), n_clusters, generator), adjacency)
        for each in (own, evened)
    )
    return evened if of_evened >= (1 - TIE) * of_own else own


def neighbor_information(labels: Tensor, adjacency: Tensor) -> float:
    """The normalized mutual information of the clusters at both ends of an edge, over all edges: 0 to 1.

    0 if a node's cluster says nothing about those of its neighbors. One cluster with nearly all nodes also scores low,
    unlike with the share of edges inside clusters.
    """
    indptr, ends = adjacency.crow_indices(), adjacency.col_indices()
    starts = torch.repeat_interleave(torch.arange(len(labels), device=ends.device), indptr.diff())
    is_edge = starts != ends  # S has loops
    n_clusters = int(labels.max()) + 1
    pairs = labels[starts[is_edge]] * n_clusters + labels[ends[is_edge]]
    counts = torch.bincount(pairs, minlength=n_clusters**2).double().view(n_clusters, n_clusters)
    joint = counts / counts.sum().clamp(min=1)
    start, end, both = (torch.special.entr(shares).sum() for shares in (joint.sum(1), joint.sum(0), joint))
    total = float(start + end)
    return 2 * (total - float(both)) / total if total else 0.0
