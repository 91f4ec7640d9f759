"""Initial centers of k-means: random rows, or k-means++."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def random_rows(n: int, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """Distinct row numbers below ``n`` for each restart: [m, k]."""
    order = torch.rand(n_restarts, n, generator=generator, device=generator.device)
    return order.topk(n_clusters, dim=1).indices


def plus_plus_rows(x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """Row numbers by greedy k-means++ (Arthur and Vassilvitskii 2007, section 3): [m, k].

    Each next center is chosen from a few candidates, drawn with probability proportional to the squared distance to
    the nearest center so far: the one that lowers the inertia most.
    """
    n, device = x.shape[0], x.device
    n_candidates = 2 + int(math.log(n_clusters))
    square = x.square().sum(1)
    equal_weights = torch.ones(n_restarts, n, device=device)
    chosen = [torch.multinomial(equal_weights, 1, generator=generator).squeeze(1)]  # each [m]
    nearest = _squared_distances(x, square, chosen[0])  # [m, n]
    for _ in range(n_clusters - 1):
        # Rows equal to a center have no weight; the floor allows fewer distinct rows than clusters.
        weights = nearest + nearest.sum(1, keepdim=True).clamp(min=1e-12) * 1e-12
        candidates = torch.multinomial(weights, n_candidates, replacement=True, generator=generator)
        lowered = torch.minimum(
            _squared_distances(x, square, candidates.flatten()).view(n_restarts, n_candidates, n),
            nearest.unsqueeze(1),
        )
        best = lowered.sum(-1).argmin(1)  # [m]
        restarts = torch.arange(n_restarts, device=device)
        nearest = lowered[restarts, best]
        chosen.append(candidates[restarts, best])
    return torch.stack(chosen, dim=1)


def _squared_distances(x: Tensor, square: Tensor, rows: Tensor) -> Tensor:
    return (square[rows].unsqueeze(1) + square - 2 * x[rows] @ x.T).clamp(min=0)
