"""Leading singular vectors of tall tables, by products with the table only (randomized subspace iteration)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.sparse import spmm
from afgrl.ops.sparse.cpu import Factors, factor, factored_product
from afgrl.ops.sparse.matrix import SparseMatrix

OVERSAMPLING = 32  # columns beyond the rank: the last wanted directions converge as fast as the first
N_ITERS = 3
# Rows that are enough to fit directions of 2,560 columns: Debian (119,505 rows) scores the same as with all of them.
ROWS_TO_FIT = 32_768
SEED = 0  # the random start is the same in every call, so the same table gives the same bits


def feature_basis(x: Tensor, rank: int, shards: Shards = ONE_PROCESS) -> Tensor:
    """An orthonormal basis [f, rank] of the leading right singular vectors of ``x`` [n, f], dense or CSR.

    Only products with ``x`` and its transpose are computed; a CSR table stays sparse. Complexity: O(nnz · rank).
    With several processes, ``x`` has the rows of this one, and they add up their products [f, rank].
    """
    table = _Products(x)
    basis = _random_start(x.shape[1], min(rank + OVERSAMPLING, x.shape[1]), x)
    for _ in range(N_ITERS):
        basis = torch.linalg.qr(shards.sum(table.transposed(table.times(basis))))[0]
    projected = table.times(basis)
    return basis @ leading_eigenvectors(shards.sum(projected.T @ projected), rank)


def rows_to_fit(n: int) -> slice:
    """The rows from which directions are fitted: all of them, or evenly spaced ones of a long table."""
    return slice(0, n, max(1, n // ROWS_TO_FIT))


def gram_matrix(blocks: Iterable[Tensor], shards: Shards = ONE_PROCESS) -> Tensor:
    """The sum of ``bᵀb`` over blocks of rows [rows, c]: [c, c].

    With several processes, over the blocks of all of them. It is then computed in float64: eigenvectors of close
    eigenvalues amplify rounding errors, which would depend on the number of processes.
    """
    if not shards.distributed:
        return torch.stack([block.T @ block for block in blocks]).sum(0)
    wide = (block.double() for block in blocks)
    return shards.sum(torch.stack([block.T @ block for block in wide]).sum(0))


def leading_eigenvectors(matrix: Tensor, rank: int) -> Tensor:
    """The ``rank`` leading eigenvectors [c, rank] of a positive semidefinite matrix [c, c], largest eigenvalue first.

    Signs are fixed: the entry of largest magnitude of each vector is positive. If few of many vectors are wanted, they
    come from subspace iteration, which is several times faster than a complete decomposition.
    """
    size = matrix.shape[0]
    rank = min(rank, size)
    width = rank + OVERSAMPLING
    if 2 * width >= size:
        vectors = _eigenvectors(matrix)[:, :rank]
    else:
        basis = _random_start(size, width, matrix)
        for _ in range(2 * N_ITERS):
            basis = torch.linalg.qr(matrix @ basis)[0]
        small = basis.T @ (matrix @ basis)
        vectors = basis @ _eigenvectors((small + small.T) / 2)[:, :rank]
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return vectors * torch.where(largest < 0, -1.0, 1.0)


def _eigenvectors(matrix: Tensor) -> Tensor:
    """All of them, largest eigenvalue first. LAPACK's float32 solver does not converge on some matrices with thousands
    of eigenvalues near 0, such as that of features most of whose columns are empty."""
    try:
        return torch.linalg.eigh(matrix)[1].flip(1)
    except torch.linalg.LinAlgError:
        return torch.linalg.eigh(matrix.double())[1].flip(1).to(matrix.dtype)


def _random_start(rows: int, columns: int, like: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn(rows, columns, generator=generator).to(like.device, like.dtype)


class _Products:
    """Products of a table and of its transpose with dense matrices."""

    def __init__(self, x: Tensor) -> None:
        self.dense = x if x.layout != torch.sparse_csr else None
        self.matrix = SparseMatrix.from_csr(x, split_rows=True) if self.dense is None and x.is_cuda else None
        self.factors: Factors = () if self.dense is not None or self.matrix is not None else (factor(x),)

    def times(self, right: Tensor) -> Tensor:
        if self.matrix is not None:
            return spmm(self.matrix, right)
        return self.dense @ right if self.dense is not None else factored_product(self.factors, right)

    def transposed(self, right: Tensor) -> Tensor:
        if self.matrix is not None:
            return spmm(self.matrix, right, transposed=True)
        if self.dense is not None:
            return self.dense.T @ right
        return factored_product(self.factors, right, transposed=True)
