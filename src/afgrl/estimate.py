"""What a training will need, said before it runs: arithmetic and memory of AFGRL on a graph of given size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.ops.knn import BLOCK_BYTES
from afgrl.ops.knn_clusters import PROBES
from afgrl.ops.propagate import ALIGNED, factored_nnz
from afgrl.ops.sparse_product import pays

FLOAT, INDEX = 4, 8  # bytes
GPU_WORKSPACE = 33 << 20  # what cuBLAS takes for itself on Hopper
UNEVEN = (
    2.4  # times the share of clusters is the share of nodes in them: large ones are looked into more often (WordNet)
)
CPU_SLACK = 8 << 20  # what threads hold


@dataclass(frozen=True)
class Workload:
    """All that time and memory depend on besides the settings."""

    n: int
    n_features: int
    n_edges: int  # both directions
    nnz: int  # features stored: all of a dense table
    device: str  # cpu or cuda

    @classmethod
    def of(cls, graph: Graph, device: str) -> Workload:
        nnz = graph.x.values().numel() if graph.x.layout == torch.sparse_csr else graph.x.numel()
        return cls(graph.n, graph.n_features, graph.edge_index.shape[1], nnz, device)

    def factored_nnz(self, n_hops: int) -> int:
        """Non-zeros of the input as products of S and X, or 0 where it is a dense table."""
        total = factored_nnz(self.nnz, self.n_edges + self.n, n_hops)
        sparse = self.device == "cpu" and self.nnz < self.n * self.n_features
        return total if sparse and pays(total, self.n, self.n_features * (n_hops + 1)) else 0


class Arithmetic(NamedTuple):
    """Operations of the products of one epoch, by what they are for."""

    encode: int  # one encoder, forth
    predict: int  # the predictor, forth
    neighbors: int
    clusters: int

    @property
    def train(self) -> int:
        """Both encoders forth and one back to its weights; the predictor forth, and back to its weights and input."""
        return 3 * self.encode + 3 * self.predict

    @property
    def search(self) -> int:
        return self.neighbors + self.clusters


def arithmetic(config: AFGRLConfig, load: Workload) -> Arithmetic:
    """Of an epoch that searches for positives."""
    assert config.n_hops is not None
    assert config.n_components
    assert config.predictor_width
    n, d = load.n, config.n_components
    share = UNEVEN * PROBES / config.n_clusters if config.looks_into_clusters(n, torch.device(load.device)) else 1
    entries = load.factored_nnz(config.n_hops) or n * load.n_features * (config.n_hops + 1)
    return Arithmetic(
        encode=2 * entries * d,
        predict=2 * n * d * config.predictor_width * 2,
        neighbors=int(2 * n * n * d * min(share, 1)),
        clusters=2 * n * config.n_restarts * config.n_clusters * d * (config.kmeans_iters + 1),
    )


def peak_memory(config: AFGRLConfig, load: Workload) -> int:
    """Bytes at most in use while training, beyond the program itself and, on a CPU, the graph."""
    assert config.n_hops is not None
    assert config.n_components
    assert config.predictor_width
    n, d, width = load.n, config.n_components, config.predictor_width
    inputs = load.n_features * (config.n_hops + 1)
    sparse = load.factored_nnz(config.n_hops)
    if load.device == "cuda":
        inputs += -inputs % ALIGNED
    table = 2 * sparse * 2 * FLOAT if sparse else n * inputs * FLOAT  # factors have transposes, and indices of 4 bytes
    graph = (load.n_edges + n) * (INDEX + FLOAT) + load.n_edges * INDEX  # S, and the edges as keys
    learned = inputs * d + 2 * d * width
    # Parameters, gradients and AdamW's two moments; the target, and a copy of the first weights (filled up, or on
    # their way into the gradient).
    weights = FLOAT * (4 * learned + 2 * inputs * d)
    if load.device == "cuda":
        # In the middle of the way back: five tables of width d and three of the predictor's width that are kept, still
        # to be used, or gradients. The search leaves rows in two bytes, and the parts of new centers.
        tables = FLOAT * n * (5 * d + 3 * width)
        search = 3 * n * d + 132 * 128 * 256 * FLOAT
        return table + graph + weights + tables + search + GPU_WORKSPACE
    # On a CPU every table is freed at once. Similarities come in blocks, whose size ops/knn.py sets.
    back = FLOAT * n * (5 * d + 4 * width)
    search = FLOAT * n * (6 * d + 2 * width) + min(BLOCK_BYTES["cpu"], FLOAT * n * n)
    smoothing = 0 if sparse else table  # X beside SX, before training
    return table + graph + max(weights + max(back, search), smoothing) + CPU_SLACK
