"""Skip-gram with negative sampling over walks, without gathering a row per pair."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

NOISE_POWER = 0.75  # of the degree (Mikolov et al. 2013, section 2.2)


def skipgram_loss(center: Tensor, context: Tensor, negatives: Tensor, window: int, n_negatives: int = 5) -> Tensor:
    """Of every ordered pair of positions (i, j) of a walk with 0 < |i - j| <= window, the mean of
    -log σ(center_i·context_j), and ``n_negatives`` times the mean of -log σ(-center_i·negative).

    ``center`` and ``context`` are [b, l, d], the vectors of the nodes the walks pass. ``negatives`` are m context
    vectors shared by the pairs of a walk, [b, m, d], or by all pairs, [m, d]: in expectation as if ``n_negatives`` were
    drawn for each pair, and one product serves for all. Those of a walk reach more nodes in a step, so its gradient has
    less noise. A node met twice is paired with itself, as in word2vec.
    """
    pairs = band(center.shape[1], window, center.device)  # [l, l]
    n_pairs = pairs.sum(1)  # [l]
    together = F.softplus(-(center @ context.mT)) * pairs  # -log σ(x) = softplus(-x), [b, l, l]
    apart = F.softplus(center @ negatives.mT).mean(2) * n_pairs  # [b, l]
    return (together.sum() + n_negatives * apart.sum()) / (len(center) * n_pairs.sum()).clamp(min=1)


def band(length: int, window: int, device: torch.device) -> Tensor:
    """1 where two positions of a walk are a pair, else 0: [l, l] float32."""
    position = torch.arange(length, device=device)
    distance = (position - position.unsqueeze(1)).abs()
    return ((distance > 0) & (distance <= window)).float()


def noise(degree: Tensor) -> Tensor:
    """The cumulative distribution of negatives, proportional to degree^0.75: [n] float64, made once for a graph.

    Isolated nodes have no share, unless all are isolated; then all have the same. It is float64 as a share can be less
    than float32 resolves, and summed on the CPU, in order: a parallel sum may rise where there is no share.
    """
    share = degree.cpu().double() ** NOISE_POWER
    if not share.any():
        share = torch.ones_like(share)
    total = share.cumsum(0)
    return (total / total[-1]).to(degree.device)


def negative_nodes(noise: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """``count`` nodes drawn from what ``noise`` returned, with replacement: [count] int64."""
    draws = torch.rand(count, dtype=noise.dtype, generator=rng, device=noise.device)
    return torch.searchsorted(noise, draws, right=True)
