"""Skip-gram with negative sampling over random walks, without copying a row for each pair."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

NOISE_POWER = 0.75  # of the degree (Mikolov et al. 2013, section 2.2)


def skipgram_loss(center: Tensor, context: Tensor, negatives: Tensor, window: int, n_negatives: int = 5) -> Tensor:
    """The skip-gram loss of walks with negative sampling: [].

    For all ordered pairs of positions (i, j) of a walk with 0 < |i - j| <= window, it is the mean of
    -log σ(center_i·context_j) plus ``n_negatives`` times the mean of -log σ(-center_i·negative).

    ``center`` and ``context`` [b, l, d] are the vectors of the nodes on the walks. ``negatives`` are m context vectors
    shared by the pairs of a walk, [b, m, d], or by all pairs, [m, d]: the expectation is that of ``n_negatives`` draws
    per pair, and one product computes all. Separate negatives for each walk cover more nodes per step, so the gradient
    has less noise. A node that occurs twice is paired with itself, as in word2vec.
    """
    pairs = band(center.shape[1], window, center.device)  # [l, l]
    n_pairs = pairs.sum(1)  # [l]
    positive = F.softplus(-(center @ context.mT)) * pairs  # -log σ(x) = softplus(-x), [b, l, l]
    negative = F.softplus(center @ negatives.mT).mean(2) * n_pairs  # [b, l]
    return (positive.sum() + n_negatives * negative.sum()) / (len(center) * n_pairs.sum()).clamp(min=1)


def band(length: int, window: int, device: torch.device) -> Tensor:
    """1 if two positions of a walk are a pair, otherwise 0: [l, l] float32."""
    position = torch.arange(length, device=device)
    distance = (position - position.unsqueeze(1)).abs()
    return ((distance > 0) & (distance <= window)).float()


def noise_distribution(degree: Tensor) -> Tensor:
    """The cumulative distribution of negatives, proportional to degree^0.75: [n] float64.

    Isolated nodes have probability 0, unless all nodes are isolated; then all have the same. It is float64 since a
    probability can be below the resolution of float32, and summed in order on the CPU: a parallel sum could increase
    at a node with probability 0.
    """
    share = degree.cpu().double() ** NOISE_POWER
    if not share.any():
        share = torch.ones_like(share)
    total = share.cumsum(0)
    return (total / total[-1]).to(degree.device)


def negative_nodes(distribution: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """``count`` nodes drawn with replacement from a ``noise_distribution``: [count] int64."""
    draws = torch.rand(count, dtype=distribution.dtype, generator=rng, device=distribution.device)
    return torch.searchsorted(distribution, draws, right=True)
