"""The loss over positive pairs (equation 3 of the paper), without copying a row for each pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.dispatch import is_fast, takes_kernels
from afgrl.ops.pair_loss.cpu import agreement_cpu, pull_cpu
from afgrl.ops.pair_loss.reference import (
    Over,
    Pull,
    divisor,
    pair_matrix,
    positive_pair_loss_reference,
    pull_reference,
)
from afgrl.ops.pair_loss.sharded import pull_sharded
from afgrl.ops.sparse.matrix import SparseMatrix

__all__ = ["Over", "Pull", "batch_pair_loss", "pair_matrix", "positive_pair_loss", "pull_of"]


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


def pull_of(t: Tensor, src: Tensor, dst: Tensor, is_positive: Tensor, shards: Shards, *, over: Over = "pairs") -> Pull:
    """With constant targets, ``positive_pair_loss`` is ``offset - 2 · mean of <P_i, rows_i>`` over all nodes i.

    The pairs (src[p], dst[p]), ``src`` ascending, count if ``is_positive[p]``. With several processes, targets, pairs
    and the pull are those of the nodes of this one.
    """
    if shards.distributed:
        return pull_sharded(t, src[is_positive], dst[is_positive], shards, over=over)
    matrix = pair_matrix(src, dst, shards.n, is_positive)
    if not is_fast():
        sums = pull_reference(t, matrix)
    elif takes_kernels(t):
        from afgrl.ops.sparse.triton import spmm_triton

        unit, weight = F.normalize(t), matrix.explicit_values
        sums = spmm_triton(matrix, unit, weight, False) + spmm_triton(matrix, unit, weight, True)
    else:
        sums = pull_cpu(t, matrix)
    count = matrix.explicit_values.sum()
    divided_by = divisor(count, shards.n, over)
    return Pull(sums.mul_(shards.n / divided_by), 4 * count / divided_by)


def batch_pair_loss(z: Tensor, rows: Tensor, offset: Tensor, n_rows: int) -> Tensor:
    """An unbiased estimate of ``positive_pair_loss`` from the predictions of a batch of nodes and their pull: [].

    If these are not all ``n_rows`` of the batch, it is the part of the loss that they contribute.
    """
    constant = offset if len(z) == n_rows else len(z) / n_rows * offset
    return constant - 2 * ((F.normalize(z) * rows).sum(1).sum() / n_rows)


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
