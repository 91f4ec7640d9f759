"""K-means, all restarts at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.dispatch import Precision, is_fast, takes_kernels

BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}  # of scores at a time


@dataclass(frozen=True, eq=False)
class Clusters:
    labels: Tensor  # [m, n] int64 or int32: the cluster of each row in each restart
    centers: Tensor  # [m, k, d]
    score: Tensor  # [m, n] x·c - |c|²/2 of each row with its own center
    square: Tensor | float  # the sum of |x|² over all rows

    @property
    def inertia(self) -> Tensor:
        """The sum of squared distances to the own center: [m], as precise as the products were."""
        return self.square - 2 * self.score.sum(1)


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    unit: bool = False,
    n_restarts: int = 1,
    n_iters: int = 20,
    generator: torch.Generator | None = None,
    centers: Tensor | None = None,
    rows: Tensor | None = None,
    init: Literal["random", "k-means++"] = "random",
    until_stable: bool = False,
    precision: Precision = "float32",
) -> Clusters:
    """Lloyd's algorithm from ``n_restarts`` starts at once, on the rows of ``x``, or with ``unit`` on their directions.

    Starts are ``centers`` where given (a warm start), or the ``rows`` of these numbers, [m, k], else rows drawn from
    ``generator`` at random or by k-means++. A cluster that runs empty keeps its center. ``until_stable`` ends a restart
    as soon as no row changes its cluster. ``precision`` is that of the products on a GPU. The same input gives the same
    bits, on either device.
    """
    if not 1 <= n_clusters <= x.shape[0]:
        raise UserError(f"{n_clusters} clusters were asked for, but 1 to {x.shape[0]} are possible.")
    kernels = takes_kernels(x) and init == "random" and not until_stable  # those two are for evaluation
    if unit and not kernels:
        x, unit = F.normalize(x), False
    if centers is None:
        if rows is None:
            assert generator is not None, "random starts need a generator"
            if init == "k-means++":
                rows = _plus_plus(x, n_clusters, n_restarts, generator)
            else:
                rows = random_rows(x.shape[0], n_clusters, n_restarts, generator)
        centers = F.normalize(x[rows], dim=-1) if unit else x[rows]
    if until_stable:
        return _settled(x, centers, n_iters)
    if kernels:
        from afgrl.ops.kmeans_triton import lloyd_kernel

        return lloyd_kernel(x, centers, n_iters, unit=unit, precision=precision)
    if is_fast() and not x.is_cuda:
        from afgrl.ops.kmeans_moving import lloyd_moving

        return lloyd_moving(x, centers, n_iters)
    return lloyd_reference(x, centers, n_iters)


def lloyd_reference(x: Tensor, centers: Tensor, n_iters: int) -> Clusters:
    """Assign every row, move every center to the mean of its rows, and again."""
    labels, best = assign(x, centers)
    for _ in range(n_iters):
        centers = _means(x, labels, centers)
        labels, best = assign(x, centers)
    return Clusters(labels, centers, best.T, x.square().sum())


def _settled(x: Tensor, centers: Tensor, n_iters: int) -> Clusters:
    """The same, but a restart in which no row changed its cluster leaves the batch."""
    centers = centers.clone()
    labels, best = assign(x, centers)
    moving = torch.arange(centers.shape[0], device=x.device)
    for _ in range(n_iters):
        centers[moving] = _means(x, labels[moving], centers[moving])
        new_labels, best[:, moving] = assign(x, centers[moving])
        changed = (new_labels != labels[moving]).any(1)
        labels[moving] = new_labels
        moving = moving[changed]
        if len(moving) == 0:
            break
    return Clusters(labels, centers, best.T, x.square().sum())


def assign(x: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row in each restart, [m, n], and its score x·c - |c|²/2, [n, m]."""
    m, k, d = centers.shape
    # |x - c|² = |x|² - 2 (x·c - |c|²/2): the largest bracket is the nearest center.
    flat = centers.reshape(m * k, d)
    half = flat.square().sum(1) / -2
    block = max(1, BLOCK_BYTES[x.device.type] // (4 * m * k))
    found = [torch.addmm(half, rows, flat.T).view(-1, m, k).max(dim=-1) for rows in x.split(block)]
    best, label = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return label.T.contiguous(), best


def _means(x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    m, k, d = centers.shape
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
    return torch.where(members > 0, sums / members.clamp(min=1), centers)


def random_rows(n: int, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """The numbers of distinct rows for each restart, of ``n``: [m, k]."""
    order = torch.rand(n_restarts, n, generator=generator, device=generator.device)
    return order.topk(n_clusters, dim=1).indices


def _plus_plus(x: Tensor, n_clusters: int, n_restarts: int, generator: torch.Generator) -> Tensor:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007, section 3): of a few candidates drawn with probability
    proportional to the squared distance to the nearest center so far, the one that lowers the sum most."""
    n, device = x.shape[0], x.device
    n_candidates = 2 + int(math.log(n_clusters))
    square = x.square().sum(1)
    everything = torch.ones(n_restarts, n, device=device)
    chosen = [torch.multinomial(everything, 1, generator=generator).squeeze(1)]  # each [m]
    nearest = _squared_distances(x, square, chosen[0])  # [m, n]
    for _ in range(n_clusters - 1):
        # Rows that coincide with a center have no weight; the floor lets fewer distinct rows than clusters pass.
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
    return torch.stack(chosen, dim=1)


def _squared_distances(x: Tensor, square: Tensor, rows: Tensor) -> Tensor:
    return (square[rows].unsqueeze(1) + square - 2 * x[rows] @ x.T).clamp(min=0)
