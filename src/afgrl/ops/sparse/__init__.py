"""SpMM: the product of a sparse matrix with a table of vectors, the messages of a GCN layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import AfgrlError
from afgrl.ops.dispatch import is_fast, takes_kernels
from afgrl.ops.sparse.matrix import SparseMatrix, row_split
from afgrl.ops.sparse.reference import spmm_reference


def spmm(matrix: SparseMatrix, h: Tensor, values: Tensor | None = None, *, transposed: bool = False) -> Tensor:
    """``matrix @ h`` for ``h`` [m, d], with ``values`` [e] in place of the matrix's own: [n, d]; ``transposed``
    multiplies with the transpose instead: [n, d] becomes [m, d].

    The gradient flows to ``h`` only.
    """
    if h.ndim != 2 or h.shape[0] != matrix.shape[0 if transposed else 1]:
        shape = matrix.shape[::-1] if transposed else matrix.shape
        raise AfgrlError(f"A sparse matrix {shape} cannot be multiplied with a table {tuple(h.shape)}.")
    values = matrix.explicit_values if values is None else values.detach()
    product: Tensor = _SpMM.apply(h, values, matrix, transposed)
    return product


def transposed_spmm(matrix: SparseMatrix, h: Tensor, values: Tensor) -> Tensor:
    """``matrix.T @ h`` for ``h`` [n, d], with ``values`` [e] in place of the matrix's own: [m, d]."""
    product: Tensor = _SpMM.apply(h, values.detach(), matrix, True)
    return product


def csr_multiplier(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """The function ``h -> matrix @ h`` for a float32 CSR tensor [n, m] and dense tables h [m, d], without gradients.

    It gives the same bits in every call. PyTorch's own product does not on a GPU: its algorithm of cuSPARSE
    adds up the entries of a row in any order.
    """
    indptr, indices, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    if takes_kernels(values):
        from afgrl.ops.sparse.triton import segment_sums

        split = row_split(indptr)
        return lambda h: segment_sums(split, matrix.shape[0], indices, values, None, h)
    if is_fast() and not matrix.is_cuda:  # see ops/sparse/cpu.py
        return lambda h: F.embedding_bag(
            indices, h.contiguous(), indptr, mode="sum", per_sample_weights=values, include_last_offset=True
        )
    return lambda h: matrix @ h


class _SpMM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, values: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        ctx.save_for_backward(values)
        if takes_kernels(h):
            from afgrl.ops.sparse.triton import spmm_triton

            return spmm_triton(matrix, h, values, transposed)
        return spmm_reference(matrix, h, values, transposed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (values,) = ctx.saved_tensors
        return _SpMM.apply(grads[0], values, ctx.matrix, not ctx.transposed), None, None, None
