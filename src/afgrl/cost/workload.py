"""The size of a graph, and the arithmetic of training AFGRL on it in full batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_to_scipy
from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.positive_settings import PositiveSettings
from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.knn.partition import FINE_ITERS, FINE_PROBES, FINE_ROWS, fine_clusters
from afgrl.ops.knn.visitors import PROBES, compared_centers
from afgrl.ops.propagation import factored_nnz
from afgrl.ops.sparse.layout import CSR_PRODUCT_COST, factored_product_is_faster

# Nodes searched per cluster searched, relative to the mean cluster size: large clusters are searched more often
# (measured on WordNet).
UNEVEN = 2.4
SAMPLED_ROWS, SAMPLED_HOPS = 128, 2  # of the table whose non-zeros are counted


@dataclass(frozen=True)
class Workload:
    """What time and memory depend on besides the settings."""

    n: int
    n_features: int
    n_edges: int  # both directions
    nnz: int  # stored features; all of them if dense
    device: str  # cpu or cuda
    hop_nnz: tuple[int, ...] = ()  # about the non-zeros of X, SX and S²X; empty if X is dense

    @classmethod
    def of(cls, graph: Graph, device: str) -> Workload:
        sparse = graph.x.layout == torch.sparse_csr
        nnz = graph.x.values().numel() if sparse else graph.x.numel()
        hops = _sampled_hops(graph) if sparse and device == "cpu" else ()
        return cls(graph.n, graph.n_features, graph.edge_index.shape[1], nnz, device, hops)

    def own_table_nnz(self) -> int:
        """The same for the input X alone."""
        return self.nnz if self.hop_nnz and self.nnz * CSR_PRODUCT_COST <= self.n * self.n_features else 0

    def row_table_nnz(self, n_hops: int) -> int:
        """Non-zeros of the table that batches of rows are taken from; 0 if it is dense (``row_table``)."""
        if not self.own_table_nnz():
            return 0
        hops = [self.hop_nnz[min(hop, SAMPLED_HOPS)] for hop in range(n_hops + 1)]
        nnz, blocks = (sum(hops), n_hops + 1) if n_hops else (self.hop_nnz[1], 1)
        return nnz if factored_product_is_faster(nnz, (self.n, self.n_features * blocks)) else 0

    def factored_nnz(self, n_hops: int) -> int:
        """Non-zeros of the input as products of S and X; 0 if it is a dense table."""
        total = factored_nnz(self.nnz, self.n_edges + self.n, n_hops)
        sparse = self.device == "cpu" and self.nnz < self.n * self.n_features
        return total if sparse and factored_product_is_faster(total, (self.n, self.n_features * (n_hops + 1))) else 0


def _sampled_hops(graph: Graph) -> tuple[int, ...]:
    """Non-zeros of X, SX and S²X, extrapolated from some rows: how much the words of neighbors overlap follows from no
    count."""
    rows = np.linspace(0, graph.n - 1, min(graph.n, SAMPLED_ROWS)).astype(np.int64)
    ends, loops = graph.edge_index.cpu().numpy(), np.arange(graph.n)
    source, target = (np.concatenate([side, loops]) for side in ends)
    ones = np.ones(len(source), dtype=np.float32)
    pattern = sp.csr_array((ones, (target, source)), shape=(graph.n, graph.n))
    x = abs(csr_to_scipy(graph.x.cpu()))
    reached, counts = sp.eye_array(graph.n, format="csr", dtype=np.float32)[rows], []
    for _ in range(SAMPLED_HOPS + 1):
        counts.append(round((reached @ x).nnz * graph.n / len(rows)))
        reached = reached @ pattern
    return tuple(counts)


class Arithmetic(NamedTuple):
    """Operations of the matrix products of one epoch."""

    encode: int  # forward pass of one encoder
    predict: int  # forward pass of the predictor
    neighbors: int
    clusters: int

    @property
    def train(self) -> int:
        """Forward passes of both encoders, weight gradient of one; the predictor with weight and input gradients."""
        return 3 * self.encode + 3 * self.predict

    @property
    def search(self) -> int:
        return self.neighbors + self.clusters


def arithmetic(settings: AFGRLSettings, load: Workload) -> Arithmetic:
    """The arithmetic of an epoch that refreshes the positives."""
    n, d = load.n, settings.n_components
    entries = load.factored_nnz(settings.n_hops) or n * load.n_features * (settings.n_hops + 1)
    return Arithmetic(
        encode=2 * entries * d,
        predict=2 * n * d * settings.predictor_width * 2,
        neighbors=neighbor_operations(settings, load),
        clusters=2 * n * settings.n_restarts * settings.n_clusters * d * (settings.kmeans_iters + 1),
    )


def neighbor_operations(settings: PositiveSettings, load: Workload) -> int:
    """Of one search for the nearest neighbors."""
    d = settings.width
    return int(2 * load.n * load.n * d * _searched_share(settings, load)) + _partition(settings, load) * d


def _searched_share(settings: PositiveSettings, load: Workload) -> float:
    """Of all pairs of nodes, those that the search compares."""
    if not settings.searches_clusters(load.n, torch.device(load.device)):
        return 1.0
    probes, clusters = (
        (FINE_PROBES, fine_clusters(load.n, load.device)) if load.n > HUGE else (PROBES, settings.n_clusters)
    )
    return min(1.0, UNEVEN * probes / clusters)


def _partition(settings: PositiveSettings, load: Workload) -> int:
    """Operations per column of the partition of a huge graph and of the search for the nearest centers."""
    if load.n <= HUGE or not settings.searches_clusters(load.n, torch.device(load.device)):
        return 0
    clusters = fine_clusters(load.n, load.device)
    inside = clusters // settings.n_clusters  # centers that a row is compared with, those inside its cluster of k-means
    centers = compared_centers(clusters, load.device)
    return 2 * (inside * (FINE_ROWS * clusters * FINE_ITERS + load.n) + centers * load.n)
