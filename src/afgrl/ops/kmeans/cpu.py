"""Lloyd's algorithm on a CPU without the products that cannot change a label.

A cluster that no row joined or left keeps exactly the same center, so its scores are still valid: an iteration
multiplies the rows with the moved centers only. For all other centers one number per row is enough: ``bound``, which no
center except the row's own exceeded when they were last compared. A row whose best score reaches its bound is done; the
few others (below 1 % on Photo and CS) are compared with all centers of their restart. The iterations end when no row
changes its cluster.

No margin for rounding is needed, as it is for bounds by the triangle inequality: ``bound`` is itself a score, so a
label can differ from that of the reference only if two scores are as close as its own rounding. Bounds by the triangle
inequality were not faster either. In hundreds of dimensions the second center is hardly farther away than the first
(0.73 and 0.69 on CS): while centers still move, 30 to 100 % of the rows have to be compared again, and copying one row
costs as much as comparing it with 80 centers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import Precision
from afgrl.ops.kmeans.reference import KMeansResult

BLOCK_BYTES = 8 << 20  # size of a block of scores: it is read three times, so it should fit the cache


class _Nearest(NamedTuple):
    """Per restart and row. A score is x·c - |c|²/2; the nearest center has the largest."""

    label: Tensor  # [m, n] int64: the nearest center
    best: Tensor  # [m, n] its score
    bound: Tensor  # [m, n] no other center has a larger score


def lloyd_cpu(
    x: Tensor, centers: Tensor, n_iters: int, *, unit: bool = False, precision: Precision = "float32"
) -> KMeansResult:
    """As ``lloyd_reference``, in less time."""
    x = F.normalize(x) if unit else x
    m, k, _ = centers.shape
    now = _compare(x, centers.flatten(0, 1), [k] * m)
    # The sums of the clusters are updated by the rows that change, in float64 so that no error accumulates over the
    # iterations: only the sums of the rows themselves are rounded.
    sums = _sums(x, now.label, torch.ones_like(now.label, dtype=torch.bool), k).double() if n_iters else None
    for _ in range(n_iters):
        assert sums is not None
        old_centers, centers = centers, _means(sums, now.label, centers)
        before, now = now, _reassign(x, centers, (centers != old_centers).any(-1), now)
        changed = now.label != before.label
        if not changed.any():
            break
        sums += _sums(x, now.label, changed, k) - _sums(x, before.label, changed, k)
    squares = torch.linalg.vector_norm(x, dim=1).square().sum()
    return KMeansResult(now.label, centers, now.best, squares)


def _reassign(x: Tensor, centers: Tensor, moved: Tensor, before: _Nearest) -> _Nearest:
    """The nearest centers after those of ``moved`` [m, k] bool have moved."""
    counts = moved.sum(1).tolist()
    found = _compare(x, centers[moved], counts)
    now = _Nearest(*(part.clone() for part in before))
    for restart, which in enumerate(moved.nonzero()[:, 1].split(counts)):
        if len(which) == 0:
            continue
        label, best, bound = (part[restart] for part in now)  # views
        own = torch.where(moved[restart, label], -torch.inf, best)  # ``found`` has the scores of moved centers
        torch.where(found.best[restart] > own, which[found.label[restart]], label, out=label)
        torch.maximum(found.best[restart], own, out=best)
        uncertain = (best < bound).nonzero().squeeze(1)  # a center that did not move may be nearer
        for other in (found.bound[restart], torch.minimum(found.best[restart], own)):
            torch.maximum(bound, other, out=bound)
        again = _compare(x.index_select(0, uncertain), centers[restart], [len(centers[restart])])
        for part, value in zip((label, best, bound), again, strict=True):
            part[uncertain] = value[0]
    return now


def _compare(x: Tensor, centers: Tensor, counts: list[int]) -> _Nearest:
    """The nearest of ``centers`` [p, d] for each restart, which has ``counts[i]`` of them: one product for all."""
    half = centers.square().sum(1, keepdim=True) / -2
    block = max(1, BLOCK_BYTES // (4 * max(1, len(centers))))
    found = [_two_best(torch.addmm(half, centers, rows.T), counts) for rows in x.split(block)]
    return _Nearest(*(torch.cat(parts, dim=1) for parts in zip(*found, strict=True)))


def _two_best(scores: Tensor, counts: list[int]) -> _Nearest:
    """The best and second best of each restart's ``scores`` [p, n]; minus infinity if there is none."""
    label = torch.zeros(len(counts), scores.shape[1], dtype=torch.int64)
    best, second = (scores.new_full(label.shape, -torch.inf) for _ in range(2))
    for restart, part in enumerate(scores.split(counts)):
        if len(part) > 0:
            best[restart], label[restart] = part.max(dim=0)
            second[restart] = part.scatter_(0, label[restart : restart + 1], -torch.inf).amax(dim=0)
    return _Nearest(label, best, second)


def _sums(x: Tensor, label: Tensor, which: Tensor, k: int) -> Tensor:
    """The sum of the rows of each cluster over the entries ``which`` of ``label`` [m, n]: [m, k, d]."""
    restart, row = which.nonzero(as_tuple=True)
    cluster, order = (k * restart + label[which]).sort(stable=True)
    offsets = torch.searchsorted(cluster, torch.arange(len(label) * k + 1))
    # A bag is a cluster: threads share the bags, and each is summed in the order of its rows.
    return F.embedding_bag(row[order], x, offsets, mode="sum", include_last_offset=True).view(len(label), k, -1)


def _means(sums: Tensor, label: Tensor, centers: Tensor) -> Tensor:
    """An empty cluster keeps its center; one whose sum did not change has exactly the same center."""
    m, k, _ = centers.shape
    cluster = label + k * torch.arange(m).unsqueeze(1)
    members = torch.bincount(cluster.flatten(), minlength=m * k).view(m, k, 1)
    return torch.where(members > 0, (sums / members.clamp(min=1)).to(centers.dtype), centers)
