"""Fused batch normalization and PReLU on a CPU, for blocks of rows that stay in the cache."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.bn_prelu.reference import FrozenNorm

BLOCK_BYTES = 1 << 20  # size of a block of rows


def forward_cpu(x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor) -> Tensor:
    """[n, d]."""
    factor, summand = _affine(bias, norm)
    y, negative_slope = torch.empty_like(x), slope.item()
    for rows in _blocks(x):
        F.leaky_relu_(torch.addcmul(summand, x[rows], factor, out=y[rows]), negative_slope)
    return y


def backward_cpu(
    grad: Tensor, x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients by x, bias, gain, shift and slope."""
    factor, summand = _affine(bias, norm)
    by_x, negative_slope = torch.empty_like(x), slope.item()
    by_shift, by_factor, by_slope = torch.zeros_like(bias), torch.zeros_like(bias), torch.zeros_like(slope)
    for rows in _blocks(x):
        before = torch.addcmul(summand, x[rows], factor)  # the input of PReLU
        by_before = torch.ops.aten.leaky_relu_backward(grad[rows], before, negative_slope, False)
        by_slope += before.clamp_(max=0).mul_(grad[rows]).sum()
        by_shift += by_before.sum(0)
        by_factor += torch.mul(by_before, x[rows], out=before).sum(0)
        torch.mul(by_before, factor, out=by_x[rows])
    by_gain = (by_factor + by_shift * (bias - norm.mean)) / torch.sqrt(norm.variance + norm.eps)
    return by_x, by_shift * factor, by_gain, by_shift, by_slope


def _affine(bias: Tensor, norm: FrozenNorm) -> tuple[Tensor, Tensor]:
    """Bias and normalization as one factor and one summand per column."""
    factor = norm.gain / torch.sqrt(norm.variance + norm.eps)
    return factor, (bias - norm.mean) * factor + norm.shift


def _blocks(x: Tensor) -> list[slice]:
    """Slices of rows that stay in the cache during all operations on them."""
    rows = max(1, BLOCK_BYTES // (4 * x.shape[1]))
    return [slice(start, start + rows) for start in range(0, x.shape[0], rows)]
