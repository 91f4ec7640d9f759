"""Adam and lerp on a GPU: a program updates a thousand numbers of one tensor, and one launch updates all tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.triton_rows import INTERPRETED

BLOCK = 1 << 16 if INTERPRETED else 1024


def adam_step_triton(
    parameters: Sequence[Tensor], state: Mapping[Tensor, dict[str, Tensor]], group: dict[str, Any]
) -> None:
    """One step of Adam with the settings of ``group`` and the moments and step counters of ``state``, in place."""
    steps = tuple(state[parameter]["step"] for parameter in parameters)
    torch._foreach_add_(list(steps), 1)
    grads = tuple(parameter.grad.contiguous() for parameter in parameters)  # type: ignore[union-attr]
    (beta_mean, beta_square), rate = group["betas"], group["lr"]
    _adam[(_blocks(parameters),)](
        _checked(parameters), grads,
        _checked([state[parameter]["exp_avg"] for parameter in parameters]),
        _checked([state[parameter]["exp_avg_sq"] for parameter in parameters]),
        steps, tuple(parameter.numel() for parameter in parameters),
        rate, 1 - beta_mean, 1 - beta_square, math.log(beta_mean), math.log(beta_square),
        group["eps"], group["weight_decay"], DECOUPLED=int(group["decoupled_weight_decay"]), BLOCK=BLOCK,
    )  # fmt: skip


def lerp_parameters_triton(targets: Sequence[Tensor], sources: Sequence[Tensor], weight: float) -> None:
    """As ``lerp_parameters``."""
    sizes = tuple(target.numel() for target in targets)
    _lerp[(_blocks(targets),)](_checked(targets), _checked(sources), sizes, weight, BLOCK=BLOCK)


def _blocks(tensors: Sequence[Tensor]) -> int:
    return sum(triton.cdiv(tensor.numel(), BLOCK) for tensor in tensors)


def _checked(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for tensor in tensors)
    return tuple(tensors)


@triton.jit
def _adam(
    parameters, grads, means, squares, steps, sizes, rate, take_mean, take_square, log_mean, log_square, eps, decay,
    DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program, first = tl.program_id(0), 0
    for i in tl.static_range(len(parameters)):
        blocks = tl.cdiv(sizes[i], BLOCK)
        if (program >= first) & (program < first + blocks):
            at = (program - first) * BLOCK + tl.arange(0, BLOCK)
            inside = at < sizes[i]
            value = tl.load(parameters[i] + at, mask=inside, other=0.0)
            grad = tl.load(grads[i] + at, mask=inside, other=0.0)
            mean = tl.load(means[i] + at, mask=inside, other=0.0)
            square = tl.load(squares[i] + at, mask=inside, other=0.0)
            eta = tl.load(rate)
            if DECOUPLED:
                value *= 1.0 - eta * decay
            else:
                grad += decay * value
            mean += (grad - mean) * take_mean
            square += (grad * grad - square) * take_square
            # In float64: 1 - 0.999 would lose four digits in float32.
            step = tl.load(steps[i]).to(tl.float64)
            unbias_mean = (1.0 - tl.exp(step * log_mean)).to(tl.float32)
            unbias_square = (1.0 - tl.exp(step * log_square)).to(tl.float32)
            value -= eta / unbias_mean * mean / (tl.sqrt(square) / tl.sqrt(unbias_square) + eps)
            tl.store(parameters[i] + at, value, mask=inside)
            tl.store(means[i] + at, mean, mask=inside)
            tl.store(squares[i] + at, square, mask=inside)
        first += blocks


@triton.jit
def _lerp(targets, sources, sizes, weight, BLOCK: tl.constexpr):
    program, first = tl.program_id(0), 0
    for i in tl.static_range(len(targets)):
        blocks = tl.cdiv(sizes[i], BLOCK)
        if (program >= first) & (program < first + blocks):
            at = (program - first) * BLOCK + tl.arange(0, BLOCK)
            inside = at < sizes[i]
            target = tl.load(targets[i] + at, mask=inside, other=0.0)
            target += (tl.load(sources[i] + at, mask=inside, other=0.0) - target) * weight
            tl.store(targets[i] + at, target, mask=inside)
        first += blocks
