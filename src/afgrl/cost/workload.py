"""Arithmetic and memory of training AFGRL on a graph of a given size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.ops.knn import BLOCK_BYTES
from afgrl.ops.knn.clusters import PROBES
from afgrl.ops.propagation import factored_bytes, factored_nnz
from afgrl.ops.sparse.layout import COLUMN_MULTIPLE, factored_product_is_faster

FLOAT, INDEX = 4, 8  # bytes
GPU_WORKSPACE = 33 << 20  # of cuBLAS on Hopper
# Nodes searched per cluster searched, relative to the mean cluster size: large clusters are searched more often
# (measured on WordNet).
UNEVEN = 2.4
CPU_SLACK = 8 << 20  # buffers of threads


@dataclass(frozen=True)
class Workload:
    """What time and memory depend on besides the settings."""

    n: int
    n_features: int
    n_edges: int  # both directions
    nnz: int  # stored features; all of them if dense
    device: str  # cpu or cuda

    @classmethod
    def of(cls, graph: Graph, device: str) -> Workload:
        nnz = graph.x.values().numel() if graph.x.layout == torch.sparse_csr else graph.x.numel()
        return cls(graph.n, graph.n_features, graph.edge_index.shape[1], nnz, device)

    def factored_nnz(self, n_hops: int) -> int:
        """Non-zeros of the input as products of S and X; 0 if it is a dense table."""
        total = factored_nnz(self.nnz, self.n_edges + self.n, n_hops)
        sparse = self.device == "cpu" and self.nnz < self.n * self.n_features
        return total if sparse and factored_product_is_faster(total, (self.n, self.n_features * (n_hops + 1))) else 0


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
    share = UNEVEN * PROBES / settings.n_clusters if settings.searches_clusters(n, torch.device(load.device)) else 1
    entries = load.factored_nnz(settings.n_hops) or n * load.n_features * (settings.n_hops + 1)
    return Arithmetic(
        encode=2 * entries * d,
        predict=2 * n * d * settings.predictor_width * 2,
        neighbors=int(2 * n * n * d * min(share, 1)),
        clusters=2 * n * settings.n_restarts * settings.n_clusters * d * (settings.kmeans_iters + 1),
    )


def peak_memory(settings: AFGRLSettings, load: Workload) -> int:
    """Peak bytes in use while training, without the program itself and, on a CPU, without the graph."""
    n, d, width = load.n, settings.n_components, settings.predictor_width
    inputs = load.n_features * (settings.n_hops + 1)
    sparse = load.factored_nnz(settings.n_hops)
    if load.device == "cuda":
        inputs += -inputs % COLUMN_MULTIPLE
    table = factored_bytes(load.nnz, load.n_edges + n, settings.n_hops) if sparse else n * inputs * FLOAT
    graph = (load.n_edges + n) * (INDEX + FLOAT) + load.n_edges * INDEX  # S, and the sorted edge keys
    learned = inputs * d + 2 * d * width
    # Parameters, gradients and the two moments of AdamW; the target, and a temporary copy of the first weights (padded,
    # or their gradient before accumulation).
    weights = FLOAT * (4 * learned + 2 * inputs * d)
    if load.device == "cuda":
        # In the middle of the backward pass: five tables of width d and three of the predictor's width are saved
        # activations or gradients. The search leaves rows in two bytes, and partial sums of new centers.
        tables = FLOAT * n * (5 * d + 3 * width)
        search = 3 * n * d + 132 * 128 * 256 * FLOAT
        return table + graph + weights + tables + search + GPU_WORKSPACE
    # On a CPU every table is freed at once. Similarities are computed in blocks (ops/knn).
    back = FLOAT * n * (5 * d + 4 * width)
    search = FLOAT * n * (6 * d + 2 * width) + min(BLOCK_BYTES["cpu"], FLOAT * n * n)
    smoothing = 0 if sparse else table  # X and SX, before training
    return table + graph + max(weights + max(back, search), smoothing) + CPU_SLACK
