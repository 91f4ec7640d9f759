"""Lloyd's algorithm as it is usually written, and the types that all versions share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import Precision

BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}  # size of a block of scores


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """With several processes, of the rows that this one has."""

    labels: Tensor  # [m, n] int64 or int32: the cluster of each row in each restart
    centers: Tensor  # [m, k, d]
    score: Tensor  # [m, n] x·c - |c|²/2 of each row with its own center
    square: Tensor | float  # sum of |x|² over all rows

    @property
    def inertia(self) -> Tensor:
        """Sum of squared distances to the own center: [m], with the precision of the products."""
        return self.square - 2 * self.score.sum(1)


def lloyd_reference(
    x: Tensor, centers: Tensor, n_iters: int, *, unit: bool = False, precision: Precision = "float32"
) -> KMeansResult:
    """Assigns every row to its nearest center and moves every center to the mean of its rows, ``n_iters`` times.

    ``centers`` is [m, k, d]; ``unit`` scales the rows to length 1 first. Products have the dtype of ``x``.
    """
    x = F.normalize(x) if unit else x
    labels, best = assign(x, centers)
    for _ in range(n_iters):
        centers = _means(x, labels, centers)
        labels, best = assign(x, centers)
    return KMeansResult(labels, centers, best.T, x.square().sum())


def lloyd_until_converged(x: Tensor, centers: Tensor, n_iters: int) -> KMeansResult:
    """The same, except that a restart ends when no row changes its cluster."""
    centers = centers.clone()
    labels, best = assign(x, centers)
    active = torch.arange(centers.shape[0], device=x.device)
    for _ in range(n_iters):
        centers[active] = _means(x, labels[active], centers[active])
        new_labels, best[:, active] = assign(x, centers[active])
        changed = (new_labels != labels[active]).any(1)
        labels[active] = new_labels
        active = active[changed]
        if len(active) == 0:
            break
    return KMeansResult(labels, centers, best.T, x.square().sum())


def assign(x: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row in each restart, [m, n], and its score x·c - |c|²/2, [n, m]."""
    m, k, d = centers.shape
    # |x - c|² = |x|² - 2 (x·c - |c|²/2): the nearest center has the largest score.
    flat = centers.reshape(m * k, d)
    half = flat.square().sum(1) / -2
    block = max(1, BLOCK_BYTES[x.device.type] // (4 * m * k))
    found = [torch.addmm(half, rows, flat.T).view(-1, m, k).max(dim=-1) for rows in x.split(block)]
    best, label = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return label.T.contiguous(), best


def _means(x: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    """The mean of the rows of each cluster; an empty cluster keeps its center."""
    m, k, d = centers.shape
    if x.is_cuda:  # as a product, whose sums have a fixed order; that of index_add_ would vary
        belongs = x.new_zeros(m, k, x.shape[0]).scatter_(1, labels.unsqueeze(1), 1.0)
        members = belongs.sum(-1, keepdim=True)
        sums = (belongs.view(m * k, -1) @ x).view(m, k, d)
    else:
        cluster = labels + k * torch.arange(m).unsqueeze(1)  # [m, n] numbered over all restarts
        members = torch.bincount(cluster.flatten(), minlength=m * k).view(m, k, 1)
        flat = x.new_zeros(m * k, d)
        for restart in cluster:
            flat.index_add_(0, restart, x)
        sums = flat.view(m, k, d)
    return torch.where(members > 0, sums / members.clamp(min=1), centers)
