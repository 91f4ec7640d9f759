"""Products of constant sparse matrices with the weights of a layer, several times faster than PyTorch's CSR product.

``S(XW) = (SX)W``, but S and X are much sparser than SX: on CS they have 1.3 million non-zeros together, SX has 8.3
million and the dense table 125 million entries. So the factors are stored separately and applied right to left.

A sparse row times W is a weighted sum of rows of W, which is what ``embedding_bag`` computes. Its vectorized kernel is
two to three times faster here than the CSR product of MKL or two threads of SciPy. One thread sums a row, in the order
of its columns, so the bits depend neither on the call nor on the number of threads. They differ from those of the CSR
product, which ``spmm`` uses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import AfgrlError
from afgrl.ops.sparse.matrix import SparseMatrix

# Columns of W that pass through all factors at once: the rows that a factor reads then come from the L2 cache or close
# to it. Forward and backward, CS took 0.5 times as long as with all 1,024 columns at once; 32 and 96 are about as good,
# 16 and 256 take 1.4 times as long.
COLUMNS = 64

Factors = tuple[SparseMatrix, ...]  # their product, from left to right


@dataclass(frozen=True, eq=False)
class FactoredTable:
    """The table ``[A₁ | A₂ | …]`` whose blocks are products of sparse matrices. It supports ``table @ w`` only."""

    blocks: tuple[Factors, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks[0][0].shape[0], sum(block[-1].shape[1] for block in self.blocks)

    def __matmul__(self, w: Tensor) -> Tensor:
        parts = w.split([block[-1].shape[1] for block in self.blocks])
        product = factored_product(self.blocks[0], parts[0])
        for block, part in zip(self.blocks[1:], parts[1:], strict=True):
            product = product + factored_product(block, part)
        return product


def factor(matrix: Tensor) -> SparseMatrix:
    """A CSR tensor as a factor, with 32-bit positions if they fit: less memory to read."""
    fits = max(len(matrix.values()), *matrix.shape) < 2**31
    return SparseMatrix.from_csr(matrix, index_dtype=torch.int32 if fits else torch.int64)


def factored_product(factors: Factors, w: Tensor, *, transposed: bool = False) -> Tensor:
    """The product of all factors with a float32 ``w`` [f, d] on the CPU: [n, d]. The gradient flows to ``w`` only.

    ``transposed`` multiplies with the transpose of that product instead: [n, d] becomes [f, d].
    """
    matrices = [matrix.shape[::-1] for matrix in reversed(factors)] if transposed else [m.shape for m in factors]
    shapes = [*matrices, tuple(w.shape)]
    if w.ndim != 2 or any(left[1] != right[0] for left, right in itertools.pairwise(shapes)):
        raise AfgrlError(f"Matrices of shapes {', '.join(map(str, shapes))} cannot be multiplied.")
    return _FactoredProduct.apply(factors, w, transposed)


class _FactoredProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, factors: Factors, w: Tensor, transposed: bool) -> Tensor:
        ctx.factors, ctx.transposed = factors, transposed
        return _multiply(factors, w, transposed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        return None, _FactoredProduct.apply(ctx.factors, grads[0], not ctx.transposed), None


def product_rows(indptr: Tensor, indices: Tensor, values: Tensor, h: Tensor, rows: slice) -> Tensor:
    """Some rows of the product of a CSR matrix [n, m] with a dense table [m, d]: [rows, d], with the same bits."""
    offsets = indptr[rows.start : rows.stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    return F.embedding_bag(
        indices[entries], h, offsets - offsets[0], mode="sum", per_sample_weights=values[entries],
        include_last_offset=True,
    )  # fmt: skip


def _multiply(factors: Factors, w: Tensor, transposed: bool) -> Tensor:
    steps = [_bags(matrix, transposed) for matrix in (factors if transposed else reversed(factors))]
    n = factors[-1].shape[1] if transposed else factors[0].shape[0]
    product = w.new_empty(n, w.shape[1])
    for source, target in zip(w.split(COLUMNS, dim=1), product.split(COLUMNS, dim=1), strict=True):
        block = source.contiguous()
        for offsets, columns, values in steps:
            block = F.embedding_bag(
                columns, block, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
            )
        target.copy_(block)
    return product


def _bags(matrix: SparseMatrix, transposed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets, columns and values of the rows of a matrix, or of those of its transpose."""
    if transposed:
        return matrix.indptr_t, matrix.indices_t, matrix.explicit_values.index_select(0, matrix.order_t)
    return matrix.indptr, matrix.indices, matrix.explicit_values
