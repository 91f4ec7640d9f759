"""L-BFGS on many independent convex problems at once, each with its own inner products and steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# (points [a, size], which problems these are [a]) → their values [a] and gradients [a, size]
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

MEMORY = 10  # pairs kept, as scipy's default
DECREASE = 1e-4  # the share of the promised decrease that a step must keep (Armijo)
NOISE = 1e-6  # relative; a decrease below this may be rounding, so the slopes decide (Hager and Zhang 2005)
MAX_SHORTENINGS = 30


class Pair(NamedTuple):
    step: Tensor  # [a, size]
    change: Tensor  # [a, size] of the gradient along the step
    scale: Tensor  # [a, 1] 1 / <step, change>; 0 where rounding left no curvature: such a pair does nothing


def minimize(function: Objective, start: Tensor, *, tolerance: float, max_steps: int = 1000) -> Tensor:
    """The minimizer of each problem, [p, size]: no entry of its gradient is larger than ``tolerance``.

    A problem leaves the batch when it gets there, so the hard ones do not make the easy ones wait.
    """
    solution, point = start.clone(), start
    which = torch.arange(start.shape[0], device=start.device)
    value, gradient = function(point, which)
    pairs: list[Pair] = []
    for _ in range(max_steps):
        busy = (gradient.abs().amax(1) > tolerance).nonzero().squeeze(1)
        if len(busy) < len(which):
            solution[which] = point
            which, point, value, gradient = which[busy], point[busy], value[busy], gradient[busy]
            pairs = [Pair(*(part[busy] for part in pair)) for pair in pairs]
        if len(which) == 0:
            return solution
        direction = -_inverse_hessian(pairs, gradient)
        new_point, value, new_gradient = _search(function, which, point, value, gradient, direction)
        pairs = [*pairs[-(MEMORY - 1) :], _pair(new_point - point, new_gradient - gradient)]
        point, gradient = new_point, new_gradient
    solution[which] = point
    return solution


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1, keepdim=True)


def _pair(step: Tensor, change: Tensor) -> Pair:
    curvature = _dot(step, change)
    enough = curvature > torch.finfo(step.dtype).eps * _dot(change, change)
    return Pair(step, change, torch.where(enough, 1 / curvature, 0))


def _inverse_hessian(pairs: list[Pair], gradient: Tensor) -> Tensor:
    """The two-loop recursion (Nocedal and Wright, algorithm 7.4)."""
    result, weights = gradient, []
    for pair in reversed(pairs):
        weights.append(pair.scale * _dot(pair.step, result))
        result = result - weights[-1] * pair.change
    if pairs:
        last = pairs[-1]
        curvature = _dot(last.step, last.change) / _dot(last.change, last.change)
        result = torch.where(last.scale > 0, curvature, 1) * result
    for pair, weight in zip(pairs, reversed(weights), strict=True):
        result = result + (weight - pair.scale * _dot(pair.change, result)) * pair.step
    return result


def _search(
    function: Objective, which: Tensor, point: Tensor, value: Tensor, gradient: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The full step, shortened for those problems where it does not go down enough."""
    slope = _dot(gradient, direction).squeeze(1)
    length = torch.ones_like(value)
    new_point = point + direction
    new_value, new_gradient = function(new_point, which)
    for _ in range(MAX_SHORTENINGS):
        new_slope = _dot(new_gradient, direction).squeeze(1)
        lower = new_value <= value + DECREASE * length * slope
        lower |= (new_value <= value + NOISE * value.abs()) & (new_slope <= (2 * DECREASE - 1) * slope)
        failing = (~lower).nonzero().squeeze(1)
        if len(failing) == 0:
            break
        # Where the slope would be zero if it changed evenly along the step.
        shorter = slope[failing] / (slope[failing] - new_slope[failing])
        length[failing] *= torch.nan_to_num(shorter, nan=0.1).clamp(0.1, 0.5)
        new_point[failing] = point[failing] + length[failing].unsqueeze(1) * direction[failing]
        new_value[failing], new_gradient[failing] = function(new_point[failing], which[failing])
    return new_point, new_value, new_gradient
