"""Bytes that a process sends, by the formulas of docs/scale.md, and what they predict for machines with many GPUs.

A projection, not a measurement: bandwidths are the parameters of ``Cluster``, and the rates of one GPU come from
results/scale.json.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.knn.clusters import WIDTH
from afgrl.ops.knn.partition import FINE_ITERS, FINE_PROBES, fine_clusters
from afgrl.ops.knn.ring import RING_BYTES
from benchmarks import RESULTS


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
    probes: int = 0  # clusters that a query searches, or 0 if all keys are compared
    n_neighbors: int = 12  # k


def sum_bytes(numbers: int, n_processes: int, width: int = 4) -> int:
    """Of ``Shards.sum``: each process adds up one piece, and sends it to the others."""
    return 2 * (n_processes - 1) * width * math.ceil(numbers / n_processes)


def step_bytes(size: Size, n_processes: int) -> int:
    """Gradients and the loss."""
    return sum_bytes(size.parameters + 1, n_processes)


def search_rounds(size: Size, n_processes: int) -> int:
    """Of a search in clusters: keys and queries of all visits, as if each process had the same number."""
    rows = size.n * (1 + size.probes) / n_processes
    return math.ceil(rows / (RING_BYTES // (4 * size.searched_width)))


def exchange_bytes(size: Size, n_processes: int) -> float:
    """Of a search in clusters: keys; queries, once for each process and round in which they visit clusters; visits;
    and as many answers as queries."""
    rows, cells = size.n / n_processes, n_processes * search_rounds(size, n_processes)
    vector, answer = 4 * size.searched_width, 8 * size.n_neighbors
    distinct = cells * (1 - (1 - 1 / cells) ** size.probes)  # if the clusters of a query were drawn at random
    each = vector + 12 + distinct * (vector + 8 + answer) + 8 * size.probes
    return rows * each * (n_processes - 1) / n_processes


def fine_bytes(size: Size, n_processes: int) -> int:
    """Of the centers of fine clusters: the initial ones, and the sums and counts of each iteration."""
    n_centers, width = fine_clusters(size.n, "cuda"), size.searched_width
    sums = FINE_ITERS * sum_bytes(n_centers * (width + 1), n_processes, 8)
    return sum_bytes(n_centers * width, n_processes) + sums


def refresh_bytes(size: Size, n_processes: int) -> dict[str, float]:
    """Per process, by part."""
    others, rows = n_processes - 1, math.ceil(size.n / n_processes)
    centers = size.n_restarts * size.n_clusters * (size.d + 1)
    entries = 2 * size.positives * rows  # of M + Mᵀ in the rows of a process
    distinct = size.n * (1 - math.exp(-entries / size.n))  # columns, if they were drawn at random
    fetched = distinct * others / n_processes
    fine = size.n > HUGE
    return {
        "fine clusters": fine_bytes(size, n_processes) + 4 * others * rows if fine else 0,
        "k-means": size.iterations * (sum_bytes(centers, n_processes, 8) + sum_bytes(1, n_processes, 8)),
        "labels": others * rows * size.n_restarts,
        "ring": 0 if size.probes else others * rows * 4 * size.searched_width,
        "exchange": exchange_bytes(size, n_processes) if size.probes else 0,
        "reverse pairs": 16 * size.positives * rows * others / n_processes,
        "targets": fetched * (8 + 4 * size.d),
    }


@dataclass(frozen=True)
class Cluster:
    """GPUs and how they are connected. Bandwidths are those of the vendor's data sheets."""

    machines: int
    gpus_each: int = 8
    nvlink: float = 450e9  # bytes per second that a GPU sends inside a machine (NVLink 4)
    network: float = 50e9  # bytes per second per GPU between machines (400 Gbit/s)
    latency: float = 100e-6  # seconds of one sum over all processes

    @property
    def gpus(self) -> int:
        return self.machines * self.gpus_each

    @property
    def bandwidth(self) -> float:
        """Of the slowest link."""
        return self.nvlink if self.machines == 1 else self.network


@dataclass(frozen=True)
class Rates:
    """Of one H200, in seconds, from the planted graphs of 3 and 10 million nodes; they search in 8 of √n clusters.

    A cluster has √n keys and 8 √n queries, so 8 n pairs are compared in it, and n queries with its center. ``launches``
    and ``pairs`` solve the two equations of the two graphs.
    """

    prepare: float  # per node
    targets: float  # per node and refresh
    kmeans: float  # per node and refresh
    step: float
    launches: float  # of one cluster, however few pairs it has
    pairs: float  # of one cluster, per node of the graph
    memory: float  # bytes per node, at the peak

    @classmethod
    def measured(cls) -> Rates:
        rows = json.loads((RESULTS / "scale.json").read_text(encoding="utf-8"))["rows"]
        small, large = (
            next(row for row in rows if (row["graph"], row["on"]) == (name, "cuda"))
            for name in ("planted-3m", "planted-10m")
        )
        per_cluster = [
            _per_call(row, "refresh: neighbors") / fine_clusters(row["nodes"], "cuda") for row in (small, large)
        ]
        pairs = (per_cluster[1] - per_cluster[0]) / (large["nodes"] - small["nodes"])
        n, stages = large["nodes"], large["stages"]
        prepared = sum(stages[name]["seconds"] for name in ("normalize", "propagation and SVD", "vectors"))
        return cls(
            prepared / n, _per_call(large, "refresh: targets") / n, _per_call(large, "refresh: k-means") / n,
            stages["steps"]["seconds"] / large["settings"]["steps"], per_cluster[1] - pairs * n, pairs,
            large["cuda_bytes"] / n,
        )  # fmt: skip


def _per_call(row: dict[str, Any], stage: str) -> float:
    seconds: float = row["stages"][stage]["seconds"] / row["stages"][stage]["calls"]
    return seconds


@dataclass(frozen=True)
class Job:
    """A graph of ``n`` nodes with 128 features, 10 neighbors each, trained with the default settings of its size."""

    n: int
    degree: int = 10
    d: int = 128
    n_inputs: int = 256  # columns of the encoder's input
    steps: int = 400
    refresh_every: int = 200
    products: int = (3 + 10) * 128  # columns × hops of preparation: three of the features, ten of PageRank

    def size(self) -> Size:
        return Size(
            self.n, self.d, self.n_inputs * self.d + 2 * self.d * self.d, WIDTH, positives=4.0, probes=FINE_PROBES
        )


def projected_seconds(job: Job, cluster: Cluster, rates: Rates) -> dict[str, float]:
    """Seconds of each part on a cluster, transfers and products added up as if nothing overlapped."""
    n_refreshes, size = job.steps / job.refresh_every, job.size()
    rows, n_clusters = job.n / cluster.gpus, fine_clusters(job.n, "cuda")
    neighbors = job.n * (1 - math.exp(-(job.degree + 1) / cluster.gpus))  # distinct, if edges were drawn at random
    halo = 4 * neighbors * (cluster.gpus - 1) / cluster.gpus
    # A round has seven swaps, and each of them two collectives: sizes, and what is sent.
    waiting = n_refreshes * search_rounds(size, cluster.gpus) * 14 * cluster.latency
    transfers = n_refreshes * sum(refresh_bytes(size, cluster.gpus).values()) / cluster.bandwidth
    return {
        "preparation: products": rates.prepare * rows,
        "preparation: rows of neighbors": halo * job.products / cluster.bandwidth,
        "steps": job.steps * (rates.step + step_bytes(size, cluster.gpus) / cluster.bandwidth + cluster.latency),
        "refreshes: targets and k-means": n_refreshes * (rates.targets + rates.kmeans) * rows,
        "refreshes: search, comparisons": n_refreshes * rates.pairs * n_clusters * rows,
        "refreshes: search, launches": n_refreshes * rates.launches * n_clusters / cluster.gpus,
        "refreshes: search, latency of the rounds": waiting,
        "refreshes: transfers": transfers,
    }
