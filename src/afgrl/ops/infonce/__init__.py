"""InfoNCE between two views, the contrastive loss of GRACE and GCA, without the matrix of all similarities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.dispatch import Precision, is_fast, takes_kernels
from afgrl.ops.infonce.cpu import denominator_cpu, repulsion_cpu
from afgrl.ops.infonce.reference import info_nce_reference


def info_nce(z1: Tensor, z2: Tensor, temperature: float, *, precision: Precision = "float32") -> Tensor:
    """The mean of -log p over the rows of both views [n, d]: [].

    ``p`` is the probability of a row's partner in the other view, by a softmax of cosine / ``temperature`` over all
    rows of both views except the row itself (equations 1 and 2 of Zhu et al. 2020). ``precision`` is that of the
    products on a GPU.
    """
    if z1.shape != z2.shape or z1.dim() != 2 or z1.numel() == 0:
        raise UserError(
            f"The two views must be non-empty matrices of the same shape, not {tuple(z1.shape)} and {tuple(z2.shape)}."
        )
    if not temperature > 0:
        raise UserError(f"The temperature must be above 0, not {temperature}.")
    if not is_fast():
        return info_nce_reference(z1, z2, temperature)
    loss: Tensor = _InfoNCE.apply(F.normalize(torch.cat([z1, z2])), temperature, precision)
    return loss


class _InfoNCE(torch.autograd.Function):
    """For unit rows U [2n, d] of both views, with E = exp((U Uᵀ - 1) / τ), 0 on the diagonal, and its row sums D:

    the loss is the mean of log D + (1 - U·U') / τ, where U' are the partners, and since E is symmetric, its gradient by
    U is (Σ_j E_ij (1/D_i + 1/D_j) U_j - 2 U'_i) / (2n τ). A cosine is at most 1, so nothing overflows.
    """

    @staticmethod
    def forward(ctx: Any, unit: Tensor, temperature: float, precision: Precision) -> Tensor:
        if takes_kernels(unit):
            from afgrl.ops.infonce.triton import denominator_triton

            denominator = denominator_triton(unit, temperature, precision)
        else:
            denominator = denominator_cpu(unit, temperature, precision)
        # Below a temperature of 0.023, the sum of a row opposite to all others is too small for float32.
        denominator = denominator.clamp(min=torch.finfo(denominator.dtype).tiny)
        ctx.save_for_backward(unit, denominator)
        ctx.temperature, ctx.precision = temperature, precision
        agreement = (unit * unit.roll(unit.shape[0] // 2, 0)).sum(1)
        return (denominator.log() + (1 - agreement) / temperature).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        unit, denominator = ctx.saved_tensors
        if takes_kernels(unit):
            from afgrl.ops.infonce.triton import repulsion_triton

            repulsion = repulsion_triton(unit, 1 / denominator, ctx.temperature, ctx.precision)
        else:
            repulsion = repulsion_cpu(unit, 1 / denominator, ctx.temperature, ctx.precision)
        gradient = repulsion.sub(unit.roll(unit.shape[0] // 2, 0), alpha=2)
        return gradient.mul_(grads[0] / (unit.shape[0] * ctx.temperature)), None, None
