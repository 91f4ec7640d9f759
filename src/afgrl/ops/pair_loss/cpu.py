"""The pair loss on a CPU: a sparse product instead of one row per pair."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.sparse.matrix import SparseMatrix


def agreement_cpu(z: Tensor, t: Tensor, matrix: SparseMatrix, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """<P, (M + Mᵀ) T> with unit rows P of ``z`` and T of ``t``: [], and the gradient of the loss by ``z``: [n, d]."""
    pull = pull_cpu(t, matrix)
    length = z.norm(dim=1, keepdim=True).clamp(min=1e-12)
    unit = z / length
    cosine = (unit * pull).sum(1, keepdim=True)
    return cosine.sum(), (unit.mul_(cosine).sub_(pull)).mul_(2 / (divisor * length))


def pull_cpu(t: Tensor, matrix: SparseMatrix) -> Tensor:
    """(M + Mᵀ) T with unit rows T of ``t``: [n, d]."""
    unit, weight = F.normalize(t), matrix.explicit_values
    pull = _weighted_sums(unit, matrix.indptr, matrix.indices, weight)
    pull += _weighted_sums(unit, matrix.indptr_t, matrix.indices_t, weight.index_select(0, matrix.order_t))
    return pull


def _weighted_sums(unit: Tensor, indptr: Tensor, indices: Tensor, weight: Tensor) -> Tensor:
    return F.embedding_bag(indices, unit, indptr, mode="sum", per_sample_weights=weight, include_last_offset=True)
