"""Lloyd's algorithm on the CPU without the scores that cannot change a label.

A cluster that no row joined or left keeps its center to the bit, so its scores still hold: an iteration multiplies
the rows with the moved centers only. Of all others one number a row says enough: ``rest``, which no center but the own
one exceeded when it was last compared. A row whose best score reaches it is settled; the few others (below 1 % on
Photo and CS) are compared with all centers of their restart. Once no row changes, the iterations are over.

No margin for rounding is needed, as it is for bounds by the triangle inequality: ``rest`` is a score itself, so a
label can differ from the plain loop's only where two scores are as close as that loop's own rounding. Nor did such
bounds pay. In hundreds of dimensions the second center is hardly farther than the first (0.73 and 0.69 on CS): while
centers still move, 30 to 100 % of the rows stay open, and to gather one costs as much as comparing it with 80 centers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.kmeans import Clusters

BLOCK_BYTES = 8 << 20  # of scores at a time: they are read three times, so they should stay in the cache


class _Nearest(NamedTuple):
    """Per restart and row. A score is x·c - |c|²/2: the nearest center has the largest."""

    label: Tensor  # [m, n] int64: the nearest center
    best: Tensor  # [m, n] its score
    rest: Tensor  # [m, n] no other center scores higher


def lloyd_moving(x: Tensor, centers: Tensor, n_iters: int) -> Clusters:
    """What ``kmeans(x, k, centers=centers, n_iters=n_iters)`` finds, for ``centers`` [m, k, d], in less time."""
    m, k, _ = centers.shape
    now = _compare(x, centers.flatten(0, 1), [k] * m)
    # Sums follow the rows that change. In float64, so that nothing adds up over the iterations: what rounds is
    # only the summing of the rows themselves.
    sums = _sums(x, now.label, torch.ones_like(now.label, dtype=torch.bool), k).double()
    for _ in range(n_iters):
        former, centers = centers, _means(sums, now.label, centers)
        before, now = now, _follow(x, centers, (centers != former).any(-1), now)
        changed = now.label != before.label
        if not changed.any():
            break
        sums += _sums(x, now.label, changed, k) - _sums(x, before.label, changed, k)
    squares = torch.linalg.vector_norm(x, dim=1).square().sum()
    return Clusters(now.label, centers, now.best, squares)


def _follow(x: Tensor, centers: Tensor, moved: Tensor, was: _Nearest) -> _Nearest:
    """The nearest centers, now that those of ``moved`` [m, k] have moved."""
    counts = moved.sum(1).tolist()
    found = _compare(x, centers[moved], counts)
    now = _Nearest(*(part.clone() for part in was))
    for one, which in enumerate(moved.nonzero()[:, 1].split(counts)):
        if len(which) == 0:
            continue
        label, best, rest = (part[one] for part in now)  # views
        own = torch.where(moved[one, label], -torch.inf, best)  # one that moved is among those found
        torch.where(found.best[one] > own, which[found.label[one]], label, out=label)
        torch.maximum(found.best[one], own, out=best)
        unsettled = (best < rest).nonzero().squeeze(1)  # a center that stayed may be nearer
        for other in (found.rest[one], torch.minimum(found.best[one], own)):
            torch.maximum(rest, other, out=rest)
        again = _compare(x.index_select(0, unsettled), centers[one], [len(centers[one])])
        for part, value in zip((label, best, rest), again, strict=True):
            part[unsettled] = value[0]
    return now


def _compare(x: Tensor, centers: Tensor, counts: list[int]) -> _Nearest:
    """All rows with ``centers`` [p, d], of which so many are each restart's: one product for all restarts."""
    half = centers.square().sum(1, keepdim=True) / -2
    block = max(1, BLOCK_BYTES // (4 * max(1, len(centers))))
    found = [_two_best(torch.addmm(half, centers, rows.T), counts) for rows in x.split(block)]
    return _Nearest(*(torch.cat(parts, dim=1) for parts in zip(*found, strict=True)))


def _two_best(scores: Tensor, counts: list[int]) -> _Nearest:
    """The best and the second of each restart's ``scores`` [p, n], minus infinity where there is none."""
    label = torch.zeros(len(counts), scores.shape[1], dtype=torch.int64)
    best, rest = (scores.new_full(label.shape, -torch.inf) for _ in range(2))
    for one, part in enumerate(scores.split(counts)):
        if len(part) > 0:
            best[one], label[one] = part.max(dim=0)
            rest[one] = part.scatter_(0, label[one : one + 1], -torch.inf).amax(dim=0)
    return _Nearest(label, best, rest)


def _sums(x: Tensor, label: Tensor, which: Tensor, k: int) -> Tensor:
    """The rows of each cluster summed, [m, k, d], over the entries ``which`` of ``label`` [m, n]."""
    restart, row = which.nonzero(as_tuple=True)
    cluster, order = (k * restart + label[which]).sort(stable=True)
    offsets = torch.searchsorted(cluster, torch.arange(len(label) * k + 1))
    # A bag is a cluster: threads share the bags, and each is summed in the order of its rows.
    return F.embedding_bag(row[order], x, offsets, mode="sum", include_last_offset=True).view(len(label), k, -1)


def _means(sums: Tensor, label: Tensor, centers: Tensor) -> Tensor:
    """A cluster that runs empty keeps its center; one whose sum is the same has the same center, to the bit."""
    m, k, _ = centers.shape
    own = label + k * torch.arange(m).unsqueeze(1)
    members = torch.bincount(own.flatten(), minlength=m * k).view(m, k, 1)
    return torch.where(members > 0, (sums / members.clamp(min=1)).to(centers.dtype), centers)
