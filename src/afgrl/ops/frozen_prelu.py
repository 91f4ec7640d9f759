"""A linear layer's bias, its frozen norm and its PReLU as one step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import is_fast, takes_kernels

BLOCK_BYTES = 1 << 20


class Norm(NamedTuple):
    """Batch norm with statistics that no longer move."""

    mean: Tensor  # [d]
    variance: Tensor  # [d]
    gain: Tensor  # [d], learned
    shift: Tensor  # [d], learned
    eps: float


def frozen_prelu(x: Tensor, bias: Tensor, norm: Norm, slope: Tensor) -> Tensor:
    """``PReLU(gain · (x + bias - mean) / √(variance + eps) + shift)`` of [n, d], with one slope for all columns."""
    if not is_fast():
        return frozen_prelu_reference(x, bias, norm, slope)
    y: Tensor = _FrozenPReLU.apply(x, bias, norm.gain, norm.shift, slope, norm)
    return y


def frozen_prelu_reference(x: Tensor, bias: Tensor, norm: Norm, slope: Tensor) -> Tensor:
    normal = F.batch_norm(x + bias, norm.mean, norm.variance, norm.gain, norm.shift, eps=norm.eps)
    return F.prelu(normal, slope)


class _FrozenPReLU(torch.autograd.Function):
    """Keeps ``x`` alone for the way back, and computes the rest anew: memory is slower than arithmetic."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, slope: Tensor, norm: Norm) -> Tensor:
        ctx.save_for_backward(x, bias, gain, shift, slope)
        ctx.norm = norm
        if takes_kernels(x):
            from afgrl.ops.frozen_prelu_triton import forward_kernel as forward
        else:
            forward = _forward
        return forward(x, bias, norm, slope)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, _, _, slope = ctx.saved_tensors
        if takes_kernels(x):
            from afgrl.ops.frozen_prelu_triton import backward_kernel as backward
        else:
            backward = _backward
        return *backward(grads[0], x, bias, ctx.norm, slope), None


def _affine(bias: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """Bias and norm as one factor and one summand for each column."""
    factor = norm.gain / torch.sqrt(norm.variance + norm.eps)
    return factor, (bias - norm.mean) * factor + norm.shift


def _blocks(x: Tensor) -> list[slice]:
    """Rows that stay in the cache through all the passes over them."""
    rows = max(1, BLOCK_BYTES // (4 * x.shape[1]))
    return [slice(start, start + rows) for start in range(0, x.shape[0], rows)]


def _forward(x: Tensor, bias: Tensor, norm: Norm, slope: Tensor) -> Tensor:
    factor, summand = _affine(bias, norm)
    y, below = torch.empty_like(x), slope.item()
    for rows in _blocks(x):
        F.leaky_relu_(torch.addcmul(summand, x[rows], factor, out=y[rows]), below)
    return y


def _backward(
    grad: Tensor, x: Tensor, bias: Tensor, norm: Norm, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients by x, bias, gain, shift and slope."""
    factor, summand = _affine(bias, norm)
    by_x, below = torch.empty_like(x), slope.item()
    by_shift, by_factor, by_slope = torch.zeros_like(bias), torch.zeros_like(bias), torch.zeros_like(slope)
    for rows in _blocks(x):
        before = torch.addcmul(summand, x[rows], factor)  # what PReLU saw
        by_before = torch.ops.aten.leaky_relu_backward(grad[rows], before, below, False)
        by_slope += before.clamp_(max=0).mul_(grad[rows]).sum()
        by_shift += by_before.sum(0)
        by_factor += torch.mul(by_before, x[rows], out=before).sum(0)
        torch.mul(by_before, factor, out=by_x[rows])
    by_gain = (by_factor + by_shift * (bias - norm.mean)) / torch.sqrt(norm.variance + norm.eps)
    return by_x, by_shift * factor, by_gain, by_shift, by_slope
