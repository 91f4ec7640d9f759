"""L-BFGS for many independent convex problems at once, each with its own inner products and step lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# (points [a, size], problem numbers [a]) → values [a] and gradients [a, size]
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

MEMORY = 10  # correction pairs, the default of scipy
SUFFICIENT_DECREASE = 1e-4  # Armijo: the required share of the decrease that the slope predicts
# Relative to the value. A difference smaller than this may be rounding, so the slopes decide whether a step is
# accepted (the approximate Wolfe condition of Hager and Zhang 2005).
ROUNDING = 1e-6
MAX_BACKTRACKS = 30


class CorrectionPair(NamedTuple):
    step: Tensor  # [a, size]
    gradient_change: Tensor  # [a, size]
    inverse_curvature: Tensor  # [a, 1] 1 / <step, gradient_change>; 0 if rounding left none, which disables the pair


def minimize(objective: Objective, start: Tensor, *, tolerance: float, max_steps: int = 1000) -> Tensor:
    """The minimizer of each problem, [p, size], at which no entry of the gradient exceeds ``tolerance``.

    A problem that has converged leaves the batch, so easy problems do not wait for hard ones. After ``max_steps``, the
    remaining problems return their current point.
    """
    solution, point = start.clone(), start
    active = torch.arange(start.shape[0], device=start.device)  # problem numbers
    value, gradient = objective(point, active)
    pairs: list[CorrectionPair] = []
    for _ in range(max_steps):
        unfinished = (gradient.abs().amax(1) > tolerance).nonzero().squeeze(1)
        if len(unfinished) < len(active):
            solution[active] = point
            active, point, value, gradient = (part[unfinished] for part in (active, point, value, gradient))
            pairs = [CorrectionPair(*(part[unfinished] for part in pair)) for pair in pairs]
        if len(active) == 0:
            return solution
        direction = -_inverse_hessian_product(pairs, gradient)
        new_point, value, new_gradient = _line_search(objective, active, point, value, gradient, direction)
        pairs = [*pairs[-(MEMORY - 1) :], _correction_pair(new_point - point, new_gradient - gradient)]
        point, gradient = new_point, new_gradient
    solution[active] = point
    return solution


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1, keepdim=True)


def _correction_pair(step: Tensor, gradient_change: Tensor) -> CorrectionPair:
    curvature = _dot(step, gradient_change)
    positive = curvature > torch.finfo(step.dtype).eps * _dot(gradient_change, gradient_change)
    return CorrectionPair(step, gradient_change, torch.where(positive, 1 / curvature, 0))


def _inverse_hessian_product(pairs: list[CorrectionPair], gradient: Tensor) -> Tensor:
    """The two-loop recursion (Nocedal and Wright, algorithm 7.4)."""
    result, weights = gradient, []
    for pair in reversed(pairs):
        weights.append(pair.inverse_curvature * _dot(pair.step, result))
        result = result - weights[-1] * pair.gradient_change
    if pairs:
        last = pairs[-1]
        scale = _dot(last.step, last.gradient_change) / _dot(last.gradient_change, last.gradient_change)
        result = torch.where(last.inverse_curvature > 0, scale, 1) * result
    for pair, weight in zip(pairs, reversed(weights), strict=True):
        result = result + (weight - pair.inverse_curvature * _dot(pair.gradient_change, result)) * pair.step
    return result


def _line_search(
    objective: Objective, active: Tensor, point: Tensor, value: Tensor, gradient: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the full step, and shorten it for the problems whose value does not decrease enough."""
    slope = _dot(gradient, direction).squeeze(1)
    length = torch.ones_like(value)
    new_point = point + direction
    new_value, new_gradient = objective(new_point, active)
    for _ in range(MAX_BACKTRACKS):
        new_slope = _dot(new_gradient, direction).squeeze(1)
        accepted = new_value <= value + SUFFICIENT_DECREASE * length * slope
        flat = new_value <= value + ROUNDING * value.abs()
        accepted |= flat & (new_slope <= (2 * SUFFICIENT_DECREASE - 1) * slope)
        rejected = (~accepted).nonzero().squeeze(1)
        if len(rejected) == 0:
            break
        # The zero of the slope if it changed linearly along the step.
        factor = slope[rejected] / (slope[rejected] - new_slope[rejected])
        length[rejected] *= torch.nan_to_num(factor, nan=0.1).clamp(0.1, 0.5)
        new_point[rejected] = point[rejected] + length[rejected].unsqueeze(1) * direction[rejected]
        new_value[rejected], new_gradient[rejected] = objective(new_point[rejected], active[rejected])
    return new_point, new_value, new_gradient
