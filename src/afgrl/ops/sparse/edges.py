"""Products along the entries of a sparse matrix, such as the edges of a graph, with gradients.

Neither copies a row for every entry in the backward pass: the gradients are sparse products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from afgrl.ops.sparse import spmm, transposed_spmm
from afgrl.ops.sparse.matrix import SparseMatrix

CHUNK_BYTES = 256 << 20  # of the rows that are copied at once


def edge_products(matrix: SparseMatrix, u: Tensor, v: Tensor) -> Tensor:
    """u_i · v_j for each entry (i, j) of the matrix, for ``u`` [n, d] and ``v`` [m, d]: [e]."""
    products: Tensor = _EdgeProducts.apply(u, v, matrix)
    return products


def learned_spmm(matrix: SparseMatrix, values: Tensor, h: Tensor) -> Tensor:
    """The matrix with these ``values`` [e] times ``h`` [m, d], with gradients by both: [n, d]."""
    product: Tensor = _LearnedSpMM.apply(values, h, matrix)
    return product


def row_softmax(matrix: SparseMatrix, logits: Tensor) -> Tensor:
    """The softmax of ``logits`` [e] over the entries of each row: [e]."""
    largest = logits.new_full((matrix.shape[0],), -torch.inf)
    largest = largest.scatter_reduce(0, matrix.rows, logits.detach(), "amax")
    exponential = (logits - largest[matrix.rows]).exp()
    total = learned_spmm(matrix, exponential, logits.new_ones(matrix.shape[1], 1))
    return exponential / edge_products(matrix, total, total.new_ones(matrix.shape[1], 1))


def _edge_products(matrix: SparseMatrix, u: Tensor, v: Tensor) -> Tensor:
    size = max(1, CHUNK_BYTES // (2 * u.element_size() * max(1, u.shape[1])))
    parts = [
        torch.linalg.vecdot(u[matrix.rows[start : start + size]], v[matrix.indices[start : start + size]])
        for start in range(0, matrix.nnz, size)
    ]
    return torch.cat(parts) if parts else u.new_zeros(0)


class _EdgeProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(u, v)
        return _edge_products(matrix, u, v)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        u, v = ctx.saved_tensors
        grad = grads[0].contiguous()
        return spmm(ctx.matrix, v, grad), transposed_spmm(ctx.matrix, u, grad), None


class _LearnedSpMM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, h: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, h)
        return spmm(matrix, h, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        values, h = ctx.saved_tensors
        grad = grads[0].contiguous()
        return _edge_products(ctx.matrix, grad, h), transposed_spmm(ctx.matrix, grad, values), None
