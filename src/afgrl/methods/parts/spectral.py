"""Vectors without training: principal directions of multi-hop features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.propagation.adjacency import Adjacency
from afgrl.ops.propagation.columns import hops
from afgrl.ops.sparse import csr_multiplier
from afgrl.ops.sparse.layout import prepared_features
from afgrl.ops.sparse.rows import unit_rows
from afgrl.ops.storage import filled_rows, in_one_block, unit_table
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors, rows_to_fit

N_HOPS = 3
# Directions of the features that are propagated. All of them (up to 8,415) instead of 512 change accuracy by less than
# .5 points on the benchmark graphs, and 512 take a tenth of the time.
RANK = 512
# Nodes above which a graph is huge: tables of 512 columns for each hop would not fit a common machine's memory.
HUGE, HUGE_RANK = 500_000, 128
CHUNK_ROWS = 8192


def spectral_rank(n_nodes: int, n_features: int) -> int:
    """Directions of the features that are propagated."""
    return min(RANK if n_nodes <= HUGE else HUGE_RANK, n_features)


class SpectralFeatures(nn.Module):
    """V: ``[X | SX | S²X | S³X]`` with unit rows in each block, projected onto its leading right singular vectors.

    X is first projected onto its own leading directions, so that no wide table is propagated. Both projections are
    fitted once (``fit``) and then fixed: a new node gets its vector from its own and its neighbors' features.
    """

    basis: Tensor  # [f, r] of the features; empty if all of them are propagated
    rotation: Tensor  # [4r, width]

    def __init__(self, n_nodes: int, n_features: int, width: int) -> None:
        super().__init__()
        rank = spectral_rank(n_nodes, n_features)
        self.n_features = n_features
        self.register_buffer("basis", torch.zeros(n_features if n_features > rank else 0, rank))
        n_columns = (N_HOPS + 1) * rank
        self.register_buffer("rotation", torch.zeros(n_columns, min(width, n_columns)))

    @property
    def width(self) -> int:
        return self.rotation.shape[1]

    def fit(self, x: Tensor, adjacency: Adjacency, shards: Shards | None = None) -> None:
        """From the features [n, f], dense or CSR, and the normalized adjacency S; both have the rows of this process if
        there are several."""
        self._fit(x, adjacency, shards)

    def fit_transform(self, x: Tensor, adjacency: Adjacency, shards: Shards | None = None) -> Tensor:
        """``fit``, and V of the same graph, without computing its blocks twice."""
        return self._rotate(self._fit(x, adjacency, shards))

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """V with its singular values as scales: [n, width]."""
        return self._rotate(self._blocks(x, adjacency))

    def _fit(self, x: Tensor, adjacency: Adjacency, shards: Shards | None) -> list[Tensor]:
        shards = shards or Shards(x.shape[0])
        if self.basis.numel():
            self.basis.copy_(feature_basis(unit_rows(prepared_features(x)), self.basis.shape[1], shards))
        blocks = self._blocks(x, adjacency)
        sample = shards.part_of(rows_to_fit(shards.n))
        rows = [F.normalize(block[sample]).split(CHUNK_ROWS) for block in blocks]
        gram = gram_matrix((torch.cat(parts, 1) for parts in zip(*rows, strict=True)), shards)
        self.rotation.copy_(leading_eigenvectors(gram, self.width))
        return blocks

    def _rotate(self, blocks: list[Tensor]) -> Tensor:
        """V from the blocks, which are scaled to unit rows and removed from the list: each takes as much memory as the
        features. In blocks of rows they are scaled when they are used, since they may be in files."""
        first, *others = self.rotation.split(len(self.rotation) // (N_HOPS + 1))
        if in_one_block(blocks[0].shape[0], blocks[0].device):
            v = _to_unit_rows(blocks.pop(0)) @ first
            for rotation in others:
                v.addmm_(_to_unit_rows(blocks.pop(0)), rotation)
            return v

        def rotated(rows: slice) -> Tensor:
            v = F.normalize(blocks[0][rows]) @ first
            for block, rotation in zip(blocks[1:], others, strict=True):
                v.addmm_(F.normalize(block[rows]), rotation)
            return v

        v = filled_rows(len(blocks[0]), self.width, blocks[0].device, rotated)
        blocks.clear()
        return v

    def _blocks(self, x: Tensor, adjacency: Adjacency) -> list[Tensor]:
        """X, SX, S²X and S³X for unit rows of X, projected onto ``basis``: [n, r] each."""
        x = prepared_features(x)
        if x.layout == torch.sparse_csr:
            x = unit_rows(x)
            h = _product(x, self.basis) if self.basis.numel() else x.to_dense()
        elif self.basis.numel():
            h = filled_rows(x.shape[0], self.basis.shape[1], x.device, lambda rows: F.normalize(x[rows]) @ self.basis)
        else:
            h = unit_table(x)
        return [h, *hops(h, adjacency, N_HOPS)]


def _to_unit_rows(x: Tensor) -> Tensor:
    """In place."""
    return F.normalize(x, out=x)


def _product(x: Tensor, basis: Tensor) -> Tensor:
    """``x @ basis``; PyTorch's own product of a CSR table on a GPU has no fixed order of sums."""
    return csr_multiplier(x)(basis) if x.is_cuda and x.layout == torch.sparse_csr else x @ basis
