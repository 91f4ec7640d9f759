"""K-means with all restarts at once."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.dispatch import Precision, is_fast, takes_kernels
from afgrl.ops.kmeans.cpu import lloyd_cpu
from afgrl.ops.kmeans.init import plus_plus_rows, random_rows
from afgrl.ops.kmeans.reference import KMeansResult, lloyd_reference, lloyd_until_converged
from afgrl.ops.kmeans.sharded import lloyd_sharded
from afgrl.ops.storage import unit_table

__all__ = ["KMeansResult", "random_rows", "run_kmeans", "sampled_kmeans"]

SAMPLE_SIZE = 10_000  # rows from which ``sampled_kmeans`` computes its initial centers
# From which it computes its centers. Of a million planted vectors and 100 clusters, 200,000 took .45 of the time, and
# the NMI with the classes was .645 instead of .652, with either of two seeds.
MOST_ROWS = 500_000


def run_kmeans(
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
    until_converged: bool = False,
    precision: Precision = "float32",
    sample: slice | None = None,
    shards: Shards = ONE_PROCESS,
) -> KMeansResult:
    """Lloyd's algorithm on the rows of ``x`` [n, d], scaled to length 1 if ``unit``, with ``n_restarts`` restarts.

    The initial centers are ``centers`` [m, k, d] (a warm start), or the rows of ``x`` with the numbers ``rows`` [m, k],
    or rows drawn from ``generator`` at random or by k-means++. An empty cluster keeps its center. ``until_converged``
    ends a restart when no row changes its cluster. ``precision`` is that of the products on a GPU. The same input gives
    the same bits in every call on the same device.

    With ``sample``, centers are computed from these rows only, and ``rows`` are numbers among them; all get labels.
    With several processes, ``x`` has the rows of this one, and the result has their labels. They need unit rows, and
    ``centers`` or ``rows``.
    """
    if shards.distributed:
        assert unit
        return lloyd_sharded(F.normalize(x), centers, rows, n_iters, sample or slice(0, shards.n), shards)
    if sample is not None and sample.step > 1:
        options: dict[str, Any] = {"unit": unit, "n_restarts": n_restarts, "precision": precision}
        fitted = run_kmeans(x[sample], n_clusters, n_iters=n_iters, centers=centers, rows=rows, **options)
        return run_kmeans(x, n_clusters, n_iters=0, centers=fitted.centers, **options)
    if not 1 <= n_clusters <= x.shape[0]:
        raise UserError(f"The number of clusters must be between 1 and {x.shape[0]}, not {n_clusters}.")
    kernels = takes_kernels(x) and init == "random" and not until_converged  # evaluation alone uses the other two
    if unit and not kernels:
        x, unit = unit_table(x), False
    if centers is None:
        if rows is None:
            assert generator is not None, "random centers need a generator"
            if init == "k-means++":
                rows = plus_plus_rows(x, n_clusters, n_restarts, generator)
            else:
                rows = random_rows(x.shape[0], n_clusters, n_restarts, generator)
        centers = F.normalize(x[rows], dim=-1) if unit else x[rows]
    if until_converged:
        return lloyd_until_converged(x, centers, n_iters)
    if kernels:
        from afgrl.ops.kmeans.triton import lloyd_triton

        return lloyd_triton(x, centers, n_iters, unit=unit, precision=precision)
    lloyd = lloyd_cpu if is_fast() and not x.is_cuda else lloyd_reference
    return lloyd(x, centers, n_iters, unit=unit, precision=precision)


def sampled_kmeans(x: Tensor, n_clusters: int, generator: torch.Generator, *, most_rows: int = MOST_ROWS) -> Tensor:
    """The clusters of one good fit on many rows: [n]. Ten restarts of k-means++ run on a sample of the rows, and the
    best two continue on all of them, or on ``most_rows`` random rows if there are more; each row then gets the cluster
    of its nearest center."""
    order = torch.randperm(len(x), generator=generator, device=generator.device)
    sample = x[order[: max(SAMPLE_SIZE, 5 * n_clusters)]]
    starts = run_kmeans(sample, n_clusters, n_restarts=10, n_iters=50, generator=generator, init="k-means++")
    rows = x if len(x) <= most_rows else x[order[:most_rows].to(x.device)]
    result = run_kmeans(rows, n_clusters, centers=starts.centers[starts.inertia.argsort()[:2]], n_iters=30)
    best = int(result.inertia.argmin())
    if len(rows) == len(x):
        return result.labels[best]
    return run_kmeans(x, n_clusters, centers=result.centers[best : best + 1], n_iters=0).labels[0]
