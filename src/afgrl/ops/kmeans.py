"""K-means, all restarts as one batched problem: one product of the rows with every restart's centres."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

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
    that runs empty keeps its centre. ``until_stable`` ends a restart as soon as no row changes its cluster.
    """
    if not 1 <= n_clusters <= x.shape[0]:
        raise UserError(f"{n_clusters} clusters were asked for, but 1 to {x.shape[0]} are possible.")
    if centres is None:
        start = _random_rows if init == "random" else _plus_plus
        centres = start(x, n_clusters, n_restarts, generator)
    if until_stable:
        return _settled(x, centres, n_iters)
    labels, _ = assign(x, centres)
    for _ in range(n_iters):
        centres = _means(x, labels, centres)
        labels, best = assign(x, centres)
    return Clusters(labels, centres, _inertia(x, best))


def _settled(x: Tensor, centres: Tensor, n_iters: int) -> Clusters:
    """The same, but a restart in which no row changed its cluster leaves the batch."""
    centres = centres.clone()
    labels, best = assign(x, centres)
    moving = torch.arange(centres.shape[0], device=x.device)
    for _ in range(n_iters):
        centres[moving] = _means(x, labels[moving], centres[moving])
        new_labels, best[:, moving] = assign(x, centres[moving])
        changed = (new_labels != labels[moving]).any(1)
        labels[moving] = new_labels
        moving = moving[changed]
        if len(moving) == 0:
            break
    return Clusters(labels, centres, _inertia(x, best))


def assign(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each row in each restart, [m, n], and its score x·c - |c|²/2, [n, m]."""
    m, k, d = centres.shape
    # |x - c|² = |x|² - 2 (x·c - |c|²/2): the largest bracket is the nearest centre.
    flat = centres.reshape(m * k, d)
    half = flat.square().sum(1) / -2
    block = max(1, BLOCK_BYTES[x.device.type] // (4 * m * k))
    found = [torch.addmm(half, rows, flat.T).view(-1, m, k).max(dim=-1) for rows in x.split(block)]
    best, label = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return label.T.contiguous(), best


def _inertia(x: Tensor, best: Tensor) -> Tensor:
    return x.square().sum() - 2 * best.sum(0)


def _means(x: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    m, k, d = centres.shape
    if x.is_cuda:  # one product, which sums in one order; index_add_ there would add in any order
        belongs = x.new_zeros(m, k, x.shape[0]).scatter_(1, labels.unsqueeze(1), 1.0)
        members = belongs.sum(-1, keepdim=True)
        sums = (belongs.view(m * k, -1) @ x).view(m, k, d)
    else:
        own = labels + k * torch.arange(m).unsqueeze(1)  # [m, n] each restart's clusters apart
        members = torch.bincount(own.flatten(), minlength=m * k).view(m, k, 1)
        flat = x.new_zeros(m * k, d)
        for restart in own:
            flat.index_add_(0, restart, x)
        sums = flat.view(m, k, d)
    return torch.where(members > 0, sums / members.clamp(min=1), centres)


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
