"""Bytes that a process sends, by the formulas of docs/scale.md, and what they predict for machines with many GPUs.

A projection, not a measurement: rates and bandwidths are the parameters of ``Cluster``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The terms of the formulas."""

    n: int  # nodes
    d: int  # encoder_width
    parameters: int  # of encoder and predictor
    searched_width: int  # columns that are compared: 128 in clusters, else d
    n_clusters: int = 100  # K
    n_restarts: int = 5  # M
    iterations: int = 20  # of k-means
    positives: float = 8.0  # per node, after the filter


def sum_bytes(numbers: int, n_processes: int, width: int = 4) -> int:
    """Of ``Shards.sum``: each process adds up one piece, and sends it to the others."""
    return 2 * (n_processes - 1) * width * math.ceil(numbers / n_processes)


def step_bytes(size: Size, n_processes: int) -> int:
    """Gradients and the loss."""
    return sum_bytes(size.parameters + 1, n_processes)


def refresh_bytes(size: Size, n_processes: int) -> dict[str, float]:
    """Per process, by part."""
    others, rows = n_processes - 1, math.ceil(size.n / n_processes)
    centers = size.n_restarts * size.n_clusters * (size.d + 1)
    entries = 2 * size.positives * rows  # of M + Mᵀ in the rows of a process
    distinct = size.n * (1 - math.exp(-entries / size.n))  # columns, if they were drawn at random
    fetched = distinct * others / n_processes
    return {
        "k-means": size.iterations * (sum_bytes(centers, n_processes, 8) + sum_bytes(1, n_processes, 8)),
        "labels": others * rows * size.n_restarts,
        "ring": others * rows * 4 * size.searched_width,
        "reverse pairs": 16 * size.positives * rows * others / n_processes,
        "targets": fetched * (8 + 4 * size.d),
    }


@dataclass(frozen=True)
class Cluster:
    """GPUs and what they can do. Bandwidths are those of the vendor's data sheets; the rate is a parameter."""

    machines: int
    gpus_each: int = 8
    nvlink: float = 450e9  # bytes per second that a GPU sends inside a machine (NVLink 4)
    network: float = 50e9  # bytes per second per GPU between machines (400 Gbit/s)
    flops: float = 200e12  # of the products of a search and of k-means on one GPU, a quarter of the peak in bf16
    latency: float = 100e-6  # seconds of one sum over all processes, and of launching one step

    @property
    def gpus(self) -> int:
        return self.machines * self.gpus_each

    @property
    def bandwidth(self) -> float:
        """The slowest link of the ring."""
        return self.nvlink if self.machines == 1 else self.network


@dataclass(frozen=True)
class Job:
    """A graph of ``n`` nodes with 128 features, 10 neighbors each, trained with the defaults of large graphs."""

    n: int
    n_features: int = 128
    degree: int = 10
    d: int = 512
    steps: int = 800
    refresh_every: int = 100
    n_clusters: int = 100
    probes: int = 4
    products: int = 3 * 128 + 10 * 512  # columns × hops of preparation: three of the features, ten of PageRank

    def size(self) -> Size:
        parameters = 4 * self.n_features * self.d + 2 * self.d * self.d
        return Size(self.n, self.d, parameters, 128, self.n_clusters)


def projected_seconds(job: Job, cluster: Cluster) -> dict[str, float]:
    """Seconds of each part on a cluster, transfers and products added up as if nothing overlapped."""
    n_refreshes, size = job.steps / job.refresh_every, job.size()
    rows = job.n / cluster.gpus
    neighbors = job.n * (1 - math.exp(-(job.degree + 1) / cluster.gpus))  # distinct, if edges were drawn at random
    halo = 4 * neighbors * (cluster.gpus - 1) / cluster.gpus
    refresh = refresh_bytes(size, cluster.gpus)
    compared = 2 * rows * (job.probes / job.n_clusters) * job.n * size.searched_width
    return {
        "preparation: rows of neighbors": halo * job.products / cluster.bandwidth,
        "steps": job.steps * (step_bytes(size, cluster.gpus) / cluster.bandwidth + cluster.latency),
        "refreshes: search in clusters": n_refreshes * compared / cluster.flops,
        "refreshes: transfers": n_refreshes * sum(refresh.values()) / cluster.bandwidth,
    }
