"""K-means, all restarts as one batched problem: one product of the rows with every restart's centres."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError

BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}  # of scores at a time


class Clusters(NamedTuple):
    labels: Tensor  # [m, n] int64: the cluster of each row in each restart
    centres: Tensor  # [m, k, d]
    inertia: Tensor  # [m] sum of squared distances to the own centre


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    n_restarts: int = 1,
    n_iters: int = 20,
    generator: torch.Generator,
    centres: Tensor | None = None,
    init: Literal["random", "k-means++"] = "random",
    until_stable: bool = False,
) -> Clusters:
    """Lloyd's algorithm from ``n_restarts`` starts at once.

    Starts are ``centres`` where given (a warm start), else rows drawn at random or by k-means++. A cluster
    that runs empty keeps its centre. ``until_stable`` stops as soon as no row changes its cluster.
    """
    if not 1 <= n_clusters <= x.shape[0]:
        raise UserError(f"{n_clusters} clusters were asked for, but 1 to {x.shape[0]} are possible.")
    if centres is None:
        start = _random_rows if init == "random" else _plus_plus
        centres = start(x, n_clusters, n_restarts, generator)
    labels, inertia = assign(x, centres)
    for _ in range(n_iters):
        centres = _means(x, labels, centres)
        former = labels
        labels, inertia = assign(x, centres)
        if until_stable and torch.equal(labels, former):
            break
    return Clusters(labels, centres, inertia)


def assign(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each row in each restart, [m, n], and each restart's inertia, [m]."""
    m, k, d = centres.shape
    # |x - c|² = |x|² - 2 (x·c - |c|²/2): the largest bracket is the nearest centre.
    half = centres.square().sum(-1) / 2  # [m, k]
    block = max(1, BLOCK_BYTES[x.device.type] // (4 * m * k))
    labels = torch.empty(m, x.shape[0], dtype=torch.int64, device=x.device)
    best = x.new_zeros(m)
    flat = centres.reshape(m * k, d).T
    for start in range(0, x.shape[0], block):
        rows = slice(start, min(start + block, x.shape[0]))
        scores = (x[rows] @ flat).view(-1, m, k) - half
        top, label = scores.max(dim=-1)  # [b, m]
        labels[:, rows] = label.T
        best += top.sum(0)
    return labels, x.square().sum() - 2 * best


def _means(x: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    m, k, d = centres.shape
    means = torch.empty_like(centres)
    for restart in range(m):
        members = torch.bincount(labels[restart], minlength=k)
        if x.is_cuda:  # a product sums in one order; index_add_ there would add in any order
            sums = F.one_hot(labels[restart], k).to(x.dtype).T @ x
        else:
            sums = x.new_zeros(k, d).index_add_(0, labels[restart], x)
        filled = members.unsqueeze(1) > 0
        means[restart] = torch.where(filled, sums / members.clamp(min=1).unsqueeze(1), centres[restart])
    return means


def _random_rows(x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """Distinct rows for each restart."""
    order = torch.rand(n_restarts, x.shape[0], generator=generator, device=x.device)
    return x[order.topk(n_clusters, dim=1).indices]


def _plus_plus(x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007, section 3): of a few candidates drawn with probability
    proportional to the squared distance to the nearest centre so far, the one that lowers the sum most."""
    n, device = x.shape[0], x.device
    n_candidates = 2 + int(math.log(n_clusters))
    square = x.square().sum(1)
    everything = torch.ones(n_restarts, n, device=device)
    chosen = [torch.multinomial(everything, 1, generator=generator).squeeze(1)]  # each [m]
    nearest = _squared_distances(x, square, chosen[0])  # [m, n]
    for _ in range(n_clusters - 1):
        # Rows that coincide with a centre have no weight; the floor lets fewer distinct rows than clusters pass.
        weights = nearest + nearest.sum(1, keepdim=True).clamp(min=1e-12) * 1e-12
        candidates = torch.multinomial(weights, n_candidates, replacement=True, generator=generator)
        lowered = torch.minimum(
            _squared_distances(x, square, candidates.flatten()).view(n_restarts, n_candidates, n),
            nearest.unsqueeze(1),
        )
        pick = lowered.sum(-1).argmin(1)  # [m]
        rows = torch.arange(n_restarts, device=device)
        nearest = lowered[rows, pick]
        chosen.append(candidates[rows, pick])
    return x[torch.stack(chosen, dim=1)]


def _squared_distances(x: Tensor, square: Tensor, rows: Tensor) -> Tensor:
    return (square[rows].unsqueeze(1) + square - 2 * x[rows] @ x.T).clamp(min=0)
