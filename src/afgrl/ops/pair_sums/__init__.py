"""Sums of a penalty over the similarities of all pairs of rows, or of all rows with some, without the matrix of them.

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


def pair_sum(u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty, numbers: Tensor | None = None) -> Tensor:
    """Σ_i weight_i Σ_{j: numbers_j ≠ i} penalty(u_i · v_j) for rows of length at most 1: [].

    ``u`` is [n, d], and ``v`` [m, d] has the rows that these are compared with. ``numbers`` [m] says to which row of
    ``u`` each of them belongs, since a row is not compared with itself; by default they belong to all rows in order,
    and ``v`` may be ``u``. ``weight`` [n] has no gradient. On a GPU the products have the precision that float32
    products have at that moment.
    """
    n_compared = u.shape[:1] if numbers is None else numbers.shape
    if u.dim() != 2 or v.shape != (*n_compared, u.shape[1]) or weight.shape != u.shape[:1]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (u, v, weight, numbers) if tensor is not None)
        raise AfgrlError(f"Two matrices of the same shape and a weight per row are needed, not {shapes}.")
    if not is_fast():
        return pair_sum_reference(u, v, weight, penalty, numbers)
    total: Tensor = _PairSum.apply(u, v, weight.detach(), penalty, numbers)
    return total


class _PairSum(torch.autograd.Function):
    """With the slopes G_ij = weight_i penalty'(u_i · v_j), 0 on the diagonal, the gradients are G v and Gᵀ u.

    The result is one number, so both are computed up to a factor while a block of similarities is in memory: none of
    them is stored or computed twice.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty, numbers: Tensor | None) -> Tensor:
        n = u.shape[0]
        grad_u, grad_v, total = torch.zeros_like(u), torch.zeros_like(v), u.new_zeros(())
        block_bytes = GPU_BLOCK_BYTES if u.is_cuda else CPU_BLOCK_BYTES
        size = max(1, block_bytes // (u.element_size() * max(1, v.shape[0])))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            values, slopes = penalty.value_and_slope(u[rows] @ v.T)
            for block in (values, slopes):
                _clear_own(block, start, numbers)
            slopes.mul_(weight[rows, None])
            total += weight[rows] @ values.sum(1)
            torch.mm(slopes, v, out=grad_u[rows])
            grad_v.addmm_(slopes.T, u[rows])
        ctx.save_for_backward(grad_u, grad_v)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_u, grad_v = ctx.saved_tensors
        return grads[0] * grad_u, grads[0] * grad_v, None, None, None


def _clear_own(block: Tensor, start: int, numbers: Tensor | None) -> None:
    """Set what compares a row with itself to 0, in the block of the rows from ``start`` on."""
    if numbers is None:
        block.diagonal(start).zero_()
    else:
        rows = torch.arange(start, start + len(block), device=block.device)
        block.masked_fill_(rows[:, None] == numbers, 0)
