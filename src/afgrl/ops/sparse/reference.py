"""SpMM as PyTorch's product of a CSR tensor."""

from __future__ import annotations

from torch import Tensor

from afgrl.csr import csr_tensor
from afgrl.ops.sparse.matrix import SparseMatrix


def spmm_reference(matrix: SparseMatrix, h: Tensor, values: Tensor, transposed: bool) -> Tensor:
    """``matrix @ h``, or ``matrix.T @ h``, with these values of the entries."""
    n, m = matrix.shape
    if transposed:
        return csr_tensor(matrix.indptr_t, matrix.indices_t, values.index_select(0, matrix.order_t), (m, n)) @ h
    return csr_tensor(matrix.indptr, matrix.indices, values, (n, m)) @ h
