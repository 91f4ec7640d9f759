"""The product of a constant sparse matrix with the weights on the CPU, several times faster than PyTorch's own.

``S(XW) = (SX)W``, but S and X are far sparser than SX: on CS they hold 1.3 million non-zeros together, SX 8.3
million and the dense table 125 million. So the factors are kept apart and applied right to left.

A sparse row times W is a weighted sum of rows of W, which is what ``embedding_bag`` is: its vectorized kernel runs
here two to three times faster than the CSR product (MKL), and than two threads of scipy. A row is summed by one
thread in the order of its columns, so the bits depend neither on the call nor on the number of threads.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr_to_scipy
from afgrl.errors import AfgrlError

# Columns of W that go through all factors at once: the rows that a factor gathers then come from the L2 cache or near
# it. Forward and back, CS took 0.5 times as long as with all 1,024 columns at once; 32 and 96 are about as good, 16 and
# 256 take 1.4 times as long.
COLUMNS = 64
# What a non-zero costs in entries of a dense product, forward and back on two cores: 11 to 13 on Cora, CiteSeer, CS,
# Physics and PubMed, for it gathers where the dense product runs at the machine's peak. (6 on Photo, whose W the cache
# holds whole; its features are so dense that the rule keeps them so all the same.)
NONZERO_COST = 12


class _Rows(NamedTuple):
    """A CSR matrix as bags; with an index of 32 bits where it fits, which scipy sees to."""

    offsets: Tensor  # [n + 1]
    columns: Tensor  # [nnz]
    values: Tensor  # [nnz] float32


@dataclass(frozen=True, eq=False)
class SparseFactors:
    """A constant matrix as a product of CSR matrices, applied right to left, with what its transpose needs."""

    shape: tuple[int, int]
    matrices: tuple[_Rows, ...]
    transposes: tuple[_Rows, ...]  # of the same product: the last factor's first

    @property
    def transposed(self) -> SparseFactors:
        return SparseFactors((self.shape[1], self.shape[0]), self.transposes, self.matrices)

    @property
    def nnz(self) -> int:
        return sum(rows.values.numel() for rows in self.matrices)


@dataclass(frozen=True, eq=False)
class SparseBlocks:
    """Factored matrices side by side, ``[A₁ | A₂ | …]``: a table that can be multiplied with weights and no more."""

    blocks: tuple[SparseFactors, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks[0].shape[0], sum(block.shape[1] for block in self.blocks)

    @property
    def nnz(self) -> int:
        return sum(block.nnz for block in self.blocks)

    def __matmul__(self, w: Tensor) -> Tensor:
        parts = w.split([block.shape[1] for block in self.blocks])
        product = sparse_product(self.blocks[0], parts[0])
        for block, part in zip(self.blocks[1:], parts[1:], strict=True):
            product = product + sparse_product(block, part)
        return product


def factors(*matrices: Tensor) -> SparseFactors:
    """The product of CSR tensors, kept apart: ``factors(s, x)`` stands for SX."""
    for left, right in itertools.pairwise(matrices):
        if left.shape[1] != right.shape[0]:
            raise AfgrlError(f"Factors of shapes {tuple(left.shape)} and {tuple(right.shape)} have no product.")
    tables = [csr_to_scipy(matrix) for matrix in matrices]
    shape = (matrices[0].shape[0], matrices[-1].shape[1])
    return SparseFactors(shape, tuple(map(_rows, tables)), tuple(_rows(table.T.tocsr()) for table in reversed(tables)))


def pays(nnz_total: int, n: int, f: int) -> bool:
    """Whether factors of so many non-zeros in all beat the dense [n, f] table in a training step."""
    return NONZERO_COST * nnz_total < n * f


def sparse_product(a: SparseFactors, w: Tensor) -> Tensor:
    """``A @ w`` for a float32 ``w`` [f, d] on the CPU, with the gradient ``Aᵀ g``; A itself gets none."""
    if w.ndim != 2 or w.shape[0] != a.shape[1]:
        raise AfgrlError(f"Factors of shape {a.shape} have no product with a table of shape {tuple(w.shape)}.")
    return _Product.apply(a, w)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: SparseFactors, w: Tensor) -> Tensor:
        ctx.a = a
        return _apply(a, w)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, sparse_product(ctx.a.transposed, gradients[0])


def _apply(a: SparseFactors, w: Tensor) -> Tensor:
    product = w.new_empty(a.shape[0], w.shape[1])
    for source, target in zip(w.split(COLUMNS, dim=1), product.split(COLUMNS, dim=1), strict=True):
        block = source.contiguous()
        for offsets, columns, values in reversed(a.matrices):
            block = F.embedding_bag(
                columns, block, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
            )
        target.copy_(block)
    return product


def _rows(table: sp.csr_array) -> _Rows:
    index = sp.get_index_dtype(maxval=max(table.nnz, *table.shape))
    return _Rows(
        torch.from_numpy(table.indptr.astype(index)),
        torch.from_numpy(table.indices.astype(index)),
        torch.from_numpy(table.data.astype("float32")),
    )
