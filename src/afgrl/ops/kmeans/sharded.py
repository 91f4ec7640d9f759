"""Lloyd's algorithm with rows on several processes.

Processes add up the sums of their clusters. To be independent of the number of processes, sums are exact: the numbers
of unit rows are rounded to multiples of 2⁻³⁰, of which float64 adds up eight million without rounding. (The last bit of
a float32 above 1/64 is larger than that.)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.kmeans.reference import BLOCK_BYTES, KMeansResult
from afgrl.ops.sparse.stable import stable_product

STEPS = 2.0**30  # per unit


def lloyd_sharded(
    x: Tensor, centers: Tensor | None, rows: Tensor | None, n_iters: int, sample: slice, shards: Shards
) -> KMeansResult:
    """As ``lloyd_reference``, of the unit rows ``x`` of this process, with centers computed from the rows ``sample`` of
    all processes. The initial centers are ``centers``, or the rows of the sample with the numbers ``rows`` [m, k]."""
    if centers is None:
        assert rows is not None
        centers = shards.take(x, sample.start + rows.flatten() * (sample.step or 1)).view(*rows.shape, -1)
    centers = _fitted(x[shards.part_of(sample)], centers, n_iters, shards)
    labels, score = _assign(x, centers)
    return KMeansResult(labels, centers, score, x.square().sum())


def _fitted(x: Tensor, centers: Tensor, n_iters: int, shards: Shards) -> Tensor:
    """The centers [m, k, d] after ``n_iters`` iterations from the initial ones, on the rows of all processes.

    An empty cluster keeps its center. Ends when no row of any process changes its cluster.
    """
    if n_iters == 0:
        return centers
    rounded = round_exactly(x)
    labels = _assign(x, centers)[0]
    for _ in range(n_iters):
        centers = exact_means(rounded, labels, centers, shards)
        before, labels = labels, _assign(x, centers)[0]
        if not shards.any(not torch.equal(before, labels), x.device):
            break
    return centers


def round_exactly(x: Tensor) -> Tensor:
    """Unit rows as float64 numbers whose sums are exact."""
    return (x.double() * STEPS).round() / STEPS


def exact_means(rounded: Tensor, labels: Tensor, centers: Tensor, shards: Shards) -> Tensor:
    """The new centers [m, k, d] from the rows of ``round_exactly`` of all processes with ``labels`` [m, rows]."""
    _, k, d = centers.shape
    parts = [_sums(rounded, own, k) for own in labels]
    counts = torch.stack([torch.bincount(own, minlength=k) for own in labels]).double()
    total = shards.sum(torch.cat([torch.stack(parts), counts.unsqueeze(2)], dim=2))
    sums, members = total[..., :d], total[..., d:]
    return torch.where(members > 0, (sums / members.clamp(min=1)).to(centers.dtype), centers)


def _assign(x: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row in each restart, of equally near ones the first, and its score: [m, rows] each."""
    m, k, d = centers.shape
    flat = centers.reshape(m * k, d)
    half = flat.square().sum(1) / 2
    block = max(1, BLOCK_BYTES[x.device.type] // (4 * m * k))
    found = [(stable_product(rows, flat) - half).view(-1, m, k).max(dim=2) for rows in x.split(block)]
    best, label = (torch.cat(parts).T.contiguous() for parts in zip(*found, strict=True))
    return label, best


def _sums(x: Tensor, label: Tensor, k: int) -> Tensor:
    """The sum of the rows of each cluster: [k, d]. In any order, since it is exact."""
    if x.is_cuda:
        return x.new_zeros(k, x.shape[1]).index_add_(0, label, x)
    ascending, order = label.sort(stable=True)
    offsets = torch.searchsorted(ascending, torch.arange(k + 1))
    return F.embedding_bag(order, x, offsets, mode="sum", include_last_offset=True)
