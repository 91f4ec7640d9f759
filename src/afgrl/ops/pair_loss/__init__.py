"""The loss over positive pairs (equation 3 of the paper), without copying a row for each pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.ops.dispatch import is_fast, takes_kernels
from afgrl.ops.pair_loss.cpu import agreement_cpu
from afgrl.ops.pair_loss.reference import Over, divisor, pair_matrix, positive_pair_loss_reference
from afgrl.ops.sparse.matrix import SparseMatrix

__all__ = ["Over", "pair_matrix", "positive_pair_loss"]


def positive_pair_loss(z: Tensor, t: Tensor, matrix: SparseMatrix, *, over: Over = "pairs") -> Tensor:
    """Squared distance between unit predictions and unit targets, in both directions, averaged: [].

    A pair (i, j) contributes ``(2 - 2 cos(z_i, t_j)) + (2 - 2 cos(z_j, t_i))`` times its weight in ``matrix``, which
    comes from ``pair_matrix``. The sum is divided by the number of pairs (the authors' code) or of nodes (equation 3
    of the paper, up to a constant). The gradient flows to ``z`` only.
    """
    if not is_fast():
        return positive_pair_loss_reference(z, t, matrix, over=over)
    loss: Tensor = _PairLoss.apply(z, t.detach(), matrix, over)
    return loss


class _PairLoss(torch.autograd.Function):
    """Summed over all pairs, the loss is ``4 |M| - 2 <P, (M + Mᵀ) T>`` with unit rows P of ``z`` and T of ``t``.

    The sparse product needs no gradient, and the gradient by ``z`` is a by-product of the forward pass.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, t: Tensor, matrix: SparseMatrix, over: Over) -> Tensor:
        count = matrix.explicit_values.sum()
        divided_by = divisor(count, matrix.shape[0], over)
        if takes_kernels(z):
            from afgrl.ops.pair_loss.triton import agreement_triton as agreement_and_gradient
        else:
            agreement_and_gradient = agreement_cpu
        agreement, gradient = agreement_and_gradient(z, t, matrix, divided_by)
        ctx.save_for_backward(gradient)
        return (4 * count - 2 * agreement) / divided_by

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return grads[0] * gradient, None, None, None
