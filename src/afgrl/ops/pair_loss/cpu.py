"""The pair loss on a CPU: a sparse product instead of one row per pair."""

from __future__ import annotations

from torch import Tensor

from afgrl.ops.sparse.cpu import product_rows
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.storage import filled_rows, unit_table


def agreement_cpu(z: Tensor, t: Tensor, matrix: SparseMatrix, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """<P, (M + Mᵀ) T> with unit rows P of ``z`` and T of ``t``: [], and the gradient of the loss by ``z``: [n, d]."""
    pull = pull_cpu(t, matrix)
    length = z.norm(dim=1, keepdim=True).clamp(min=1e-12)
    unit = z / length
    cosine = (unit * pull).sum(1, keepdim=True)
    return cosine.sum(), (unit.mul_(cosine).sub_(pull)).mul_(2 / (divisor * length))


def pull_cpu(t: Tensor, matrix: SparseMatrix) -> Tensor:
    """(M + Mᵀ) T with unit rows T of ``t``: [n, d]."""
    unit, weight = unit_table(t), matrix.explicit_values
    weight_t = weight.index_select(0, matrix.order_t)

    def rows_of_pull(rows: slice) -> Tensor:
        pull = product_rows(matrix.indptr, matrix.indices, weight, unit, rows)
        pull += product_rows(matrix.indptr_t, matrix.indices_t, weight_t, unit, rows)
        return pull

    return filled_rows(t.shape[0], t.shape[1], t.device, rows_of_pull)
