"""The clustering readout: what k-means clusters instead of the vectors themselves."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.methods.parts.spectral import pagerank_average
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors

# The same for all graphs. With it, the readout has a higher NMI than the vectors on Photo, Computers, CS, Physics,
# Cora, CiteSeer, PubMed, WordNet and Debian.
N_DIRECTIONS = 64
MAX_GRAM_WIDTH = 4096  # columns: their Gram matrix has 64 MiB; that of raw features could have tens of GiB


def clustering_readout(vectors: Tensor, adjacency: Tensor, n_directions: int = N_DIRECTIONS) -> Tensor:
    """The leading principal directions of ``[u(z) | u(PPR(z))]`` for vectors z [n, d]: [n, n_directions].

    There are at most 2d directions. u scales rows to length 1, so that both parts count the same. PPR is the
    personalized PageRank average over ``adjacency``, the normalized adjacency S of all n nodes as a CSR tensor: it
    removes what distinguishes a node from its neighbors, and z keeps what the average loses. The directions are not
    centered, and have their singular values as scales. k-means then needs few columns, without the many directions that
    are mostly noise.
    """
    if vectors.ndim != 2 or adjacency.shape != (len(vectors), len(vectors)):
        shapes = f"{tuple(vectors.shape)} and {tuple(adjacency.shape)}"
        raise UserError(
            f"The readout needs vectors [n, d] and an adjacency matrix [n, n], but their shapes are {shapes}."
        )
    if not bool(torch.isfinite(vectors).all()):
        raise UserError("The vectors contain values that are NaN or infinite.")
    parts = (vectors, pagerank_average(vectors, adjacency))
    table = torch.cat([F.normalize(part) for part in parts], dim=1)  # [n, 2d]
    return table @ _leading_directions(table, n_directions)


def _leading_directions(table: Tensor, rank: int) -> Tensor:
    """Orthonormal columns [c, rank]."""
    rank = min(rank, table.shape[1])
    if table.shape[1] > MAX_GRAM_WIDTH:
        return feature_basis(table, rank)
    return leading_eigenvectors(gram_matrix([table]), rank)
