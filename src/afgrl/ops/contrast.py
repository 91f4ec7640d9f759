"""The contrastive loss of GRACE and GCA, InfoNCE between two views, without the matrix of all similarities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.dispatch import Precision, is_fast, takes_kernels

BLOCK_BYTES = 32 << 20  # of similarities at a time, on a CPU


def info_nce(z1: Tensor, z2: Tensor, temperature: float, *, precision: Precision = "float32") -> Tensor:
    """How badly each row of a view picks its partner in the other among all rows of both: the mean of -log p.

    ``p`` is the softmax of cosine / ``temperature`` over all rows but the own (equations 1 and 2 of Zhu et al.
    2020). ``precision`` is that of the products on a GPU.
    """
    if z1.shape != z2.shape or z1.dim() != 2 or z1.numel() == 0:
        raise UserError(
            f"The two views must be matrices of one shape and not empty, not {tuple(z1.shape)} and {tuple(z2.shape)}."
        )
    if not temperature > 0:
        raise UserError(f"The temperature must be above 0, not {temperature}.")
    if not is_fast():
        return info_nce_reference(z1, z2, temperature)
    loss: Tensor = _InfoNce.apply(F.normalize(torch.cat([z1, z2])), temperature, precision)
    return loss


def info_nce_reference(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """The same as it is written down, from all similarities at once."""
    n = z1.shape[0]
    unit = F.normalize(torch.cat([z1, z2]))
    similarity = unit @ unit.T / temperature  # [2n, 2n]
    partner = similarity.diagonal(n).repeat(2)
    own = torch.eye(2 * n, dtype=torch.bool, device=unit.device)
    return (similarity.masked_fill(own, -torch.inf).logsumexp(1) - partner).mean()


class _InfoNce(torch.autograd.Function):
    """Of unit rows U, both views on end, with E = exp((U Uᵀ - 1) / τ) but 0 on the diagonal, and row sums D:

    the loss is the mean of log D + (1 - U·U') / τ, U' being the partners, and as E is symmetric its gradient by U is
    (Σ_j E_ij (1/D_i + 1/D_j) U_j - 2 U'_i) / (2n τ). A cosine is at most 1, so nothing overflows.
    """

    @staticmethod
    def forward(ctx: Any, unit: Tensor, temperature: float, precision: Precision) -> Tensor:
        if takes_kernels(unit):
            from afgrl.ops.contrast_triton import denominator_kernel

            denominator = denominator_kernel(unit, temperature, precision)
        else:
            denominator = _denominator(unit, temperature)
        # Below a temperature of 0.023 a row opposite to all others sums to less than float32 knows.
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
            from afgrl.ops.contrast_triton import push_kernel

            push = push_kernel(unit, 1 / denominator, ctx.temperature, ctx.precision)
        else:
            push = _push(unit, 1 / denominator, ctx.temperature)
        gradient = push.sub(unit.roll(unit.shape[0] // 2, 0), alpha=2)
        return gradient.mul_(grads[0] / (unit.shape[0] * ctx.temperature)), None, None


def _denominator(unit: Tensor, temperature: float) -> Tensor:
    """D, [2n]."""
    return torch.cat([likeness.sum(1) for _, likeness in _blocks(unit, temperature)])


def _push(unit: Tensor, inverse: Tensor, temperature: float) -> Tensor:
    """Σ_j E_ij (1/D_i + 1/D_j) U_j, [2n, d]."""
    push = torch.empty_like(unit)
    for rows, likeness in _blocks(unit, temperature):
        torch.mm(likeness.mul_(inverse[rows, None] + inverse), unit, out=push[rows])
    return push


def _blocks(unit: Tensor, temperature: float) -> Iterator[tuple[slice, Tensor]]:
    """E, a block of rows at a time."""
    n = unit.shape[0]
    size = max(1, BLOCK_BYTES // (unit.element_size() * n))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        block = torch.addmm(
            unit.new_full((1,), -1 / temperature), unit[rows], unit.T, alpha=1 / temperature
        ).exp_()  # [b, n]
        block.diagonal(start).zero_()
        yield rows, block
