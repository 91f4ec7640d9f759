"""The gradient of a lookup."""

from __future__ import annotations

from torch import Tensor


def sum_by_row_reference(grad: Tensor, index: Tensor, n: int) -> Tensor:
    """Row i of the result is the sum of ``grad[p]`` [p, d] over all p with ``index[p] == i``: [n, d]."""
    return grad.new_zeros(n, grad.shape[1]).index_add_(0, index, grad)
