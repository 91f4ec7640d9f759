"""Bias of a linear layer, batch normalization with fixed statistics and PReLU, fused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.ops.bn_prelu.cpu import backward_cpu, forward_cpu
from afgrl.ops.bn_prelu.reference import FrozenNorm, fused_bn_prelu_reference
from afgrl.ops.dispatch import is_fast, takes_kernels


def fused_bn_prelu(x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor) -> Tensor:
    """``PReLU(gain · (x + bias - mean) / √(variance + eps) + shift)`` of [n, d], with one slope for all columns."""
    if not is_fast():
        return fused_bn_prelu_reference(x, bias, norm, slope)
    y: Tensor = _FusedBNPReLU.apply(x, bias, norm.gain, norm.shift, slope, norm)
    return y


class _FusedBNPReLU(torch.autograd.Function):
    """Stores only ``x`` for the backward pass and computes the rest again: memory is slower than arithmetic."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, slope: Tensor, norm: FrozenNorm
    ) -> Tensor:
        ctx.save_for_backward(x, bias, gain, shift, slope)
        ctx.norm = norm
        if takes_kernels(x):
            from afgrl.ops.bn_prelu.triton import forward_triton as forward
        else:
            forward = forward_cpu
        return forward(x, bias, norm, slope)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, _, _, slope = ctx.saved_tensors
        if takes_kernels(x):
            from afgrl.ops.bn_prelu.triton import backward_triton as backward
        else:
            backward = backward_cpu
        return *backward(grads[0], x, bias, ctx.norm, slope), None
