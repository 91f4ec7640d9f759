"""Sums of a penalty over the similarities of all pairs of rows, without the matrix of all similarities.

What SIGNA and NS4GC need from their negatives: every other node, each with a penalty that grows with its similarity.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from afgrl.errors import AfgrlError
from afgrl.ops.dispatch import is_fast
from afgrl.ops.pair_sums.penalties import LogDistance, Penalty, SoftThreshold
from afgrl.ops.pair_sums.reference import pair_sum_reference

__all__ = ["LogDistance", "Penalty", "SoftThreshold", "pair_sum"]

CPU_BLOCK_BYTES, GPU_BLOCK_BYTES = 32 << 20, 512 << 20  # size of a block of similarities


def pair_sum(u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty) -> Tensor:
    """Σ_i weight_i Σ_{j ≠ i} penalty(u_i · v_j) for rows of length at most 1: [].

    ``u`` and ``v`` are [n, d] and may be the same tensor; ``weight`` [n] has no gradient. On a GPU the products have
    the precision that float32 products have at that moment.
    """
    if u.shape != v.shape or u.dim() != 2 or weight.shape != u.shape[:1]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (u, v, weight))
        raise AfgrlError(f"Two matrices of the same shape and a weight per row are needed, not {shapes}.")
    if not is_fast():
        return pair_sum_reference(u, v, weight, penalty)
    total: Tensor = _PairSum.apply(u, v, weight.detach(), penalty)
    return total


class _PairSum(torch.autograd.Function):
    """With the slopes G_ij = weight_i penalty'(u_i · v_j), 0 on the diagonal, the gradients are G v and Gᵀ u.

    The result is one number, so both are computed up to a factor while a block of similarities is in memory: none of
    them is stored or computed twice.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty) -> Tensor:
        n = u.shape[0]
        grad_u, grad_v, total = torch.zeros_like(u), torch.zeros_like(v), u.new_zeros(())
        block_bytes = GPU_BLOCK_BYTES if u.is_cuda else CPU_BLOCK_BYTES
        size = max(1, block_bytes // (u.element_size() * n))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            values, slopes = penalty.value_and_slope(u[rows] @ v.T)
            values.diagonal(start).zero_()
            slopes.diagonal(start).zero_()
            slopes.mul_(weight[rows, None])
            total += weight[rows] @ values.sum(1)
            torch.mm(slopes, v, out=grad_u[rows])
            grad_v.addmm_(slopes.T, u[rows])
        ctx.save_for_backward(grad_u, grad_v)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_u, grad_v = ctx.saved_tensors
        return grads[0] * grad_u, grads[0] * grad_v, None, None
