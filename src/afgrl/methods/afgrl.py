"""AFGRL: predict, for each node, the target vectors of its positives
(Lee, Lee and Park, Augmentation-Free Self-Supervised Learning on Graphs, AAAI 2022).

Complexity per step, for predictor_width w: O(n·f·d + n·d·w) for the networks. Every ``refresh_every`` steps: O(n²·d)
for the nearest neighbors (about 10/K of it for a search in clusters) and O(n·M·K·d·kmeans_iters) for k-means.
Memory: O(n·(f + d + w)); afgrl.cost estimates both.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size, positive_int
from afgrl.methods.parts.positives import (
    CLUSTER_RULES,
    Clustering,
    Pairs,
    Rule,
    candidate_pairs,
    edge_keys,
    filter_pairs,
    same_cluster_pairs,
)
from afgrl.nn import Encoder, Normalization, Predictor, Progress, Schedule, calibrate, ema_decay, ema_update
from afgrl.ops.kmeans import random_rows, run_kmeans
from afgrl.ops.pair_filter import GLOBAL, LOCAL
from afgrl.ops.pair_loss import pair_matrix, positive_pair_loss
from afgrl.ops.propagation import Propagated, propagate
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.streams import SideStream

Stored = TypeVar("Stored", Tensor, SparseMatrix)

# Density below which features count as sparse. Bags of words have 0.4 to 10 % non-zeros in the benchmark graphs,
# co-purchase reviews 35 %, pixels and word vectors more.
SPARSE_FEATURES = 0.2
# Mean degree below which nodes have few neighbors. Citation graphs have 2.7 to 4.5 edges per node, co-author graphs 9
# to 14.
FEW_NEIGHBORS = 6
# Nodes above which a graph is large: one search over all pairs takes more than a minute on two CPU cores.
LARGE = 50_000


class AFGRLSettings(Settings):
    """The defaults are for an unknown graph; the paper's settings are in recipes/afgrl.toml.

    Fields without a default depend on the features, the degrees and the size of the graph (docs/deviations.md has the
    measurements). Sparse features such as bags of words are informative one by one, so the input also has the node's
    own features beside the propagated ones, and few epochs suffice: longer training makes the vectors worse. A second
    hop helps if nodes have few neighbors. Dense features are noisy before propagation and need more epochs. Large
    graphs save time where it costs the least quality: half the epochs for sparse features, a smaller width for dense
    ones.
    """

    epochs: int = Field(ge=0, description="passes over the graph; by default 50 to 2,000, depending on the graph")
    n_components: int = Field(
        ge=1,
        description="width of the embedding (D); by default 512, or 128 for more than 50,000 nodes with dense features",
    )
    predictor_width: int = Field(ge=1, description="hidden width of the predictor; by default twice n_components")
    n_layers: int = Field(1, ge=1, description="GCN layers (L); layers after the first pass messages at every step")
    n_hops: int = Field(
        ge=0,
        description="input of the encoder; 0: SX, h: [X | SX | … | SʰX]; by default 0, 1 or 2, depending on the graph",
    )
    normalization: Normalization = Field(
        "frozen", description="normalization after each linear layer; frozen: batch normalization with fixed statistics"
    )
    n_neighbors: int = Field(4, ge=1, description="nearest neighbors in embedding space (k)")
    search: Literal["auto", "exact", "clusters"] = Field(
        "auto",
        description="search for nearest neighbors; exact: all nodes, clusters: the nearest clusters only, "
        "auto: clusters on a CPU for more than 50,000 nodes if the rule for positives uses clusters, otherwise exact",
    )
    include_self: bool = Field(True, description="count a node as its own first neighbor")
    positives: Rule = Field(
        "all", description="rule for positives; all: neighbors that are adjacent or share a cluster (equation 2)"
    )
    n_clusters: int = Field(100, ge=1, description="clusters per k-means run (K)")
    n_restarts: int = Field(5, ge=1, description="k-means runs (M)")
    kmeans_iters: int = Field(20, ge=1, description="iterations per k-means run")
    warm_start: bool = Field(True, description="start k-means from the centers of the previous refresh")
    refresh_every: int = Field(5, ge=1, description="steps between refreshes of the positives")
    momentum: float = Field(0.9, ge=0, le=1, description="EMA decay of the target encoder (τ)")
    schedule: Schedule = Field("cosine", description="schedule of the EMA decay; authors: that of the authors' code")
    loss_over: Literal["pairs", "nodes"] = Field("pairs", description="what the loss is averaged over")

    @property
    def needs_clusters(self) -> bool:
        return self.positives in CLUSTER_RULES

    def searches_clusters(self, n: int, device: torch.device) -> bool:
        """Whether nearest neighbors are searched in the nearest clusters only."""
        preferred = self.search == "clusters" or (self.search == "auto" and n > LARGE and device.type == "cpu")
        return preferred and self.needs_clusters

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        large = graph.n > LARGE
        if graph.density >= SPARSE_FEATURES:
            values = {"n_hops": 0, "epochs": 2000, "n_components": 128 if large else 512}
        elif graph.mean_degree >= FEW_NEIGHBORS:
            values = {"n_hops": 1, "epochs": 150 if large else 300, "n_components": 512}
        else:
            values = {"n_hops": 2, "epochs": 50 if large else 100, "n_components": 512}
        return values | {"predictor_width": 2 * positive_int(given.get("n_components", values["n_components"]))}


@dataclass(frozen=True, eq=False)
class Inputs:
    propagated: Propagated
    edges: Tensor  # [e] int64, from positives.edge_keys


class AFGRLMethod(Method):
    """An online encoder with a predictor, and a target encoder that is the EMA of the online encoder."""

    name = "afgrl"
    capturable = True
    settings_class = AFGRLSettings
    settings: AFGRLSettings

    def __init__(self, settings: AFGRLSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        n_hops, d, hidden = settings.n_hops, settings.n_components, settings.predictor_width
        self.encoder = Encoder(size.n_features * (n_hops + 1), d, settings.n_layers, settings.normalization, rng)
        self.predictor = Predictor(d, hidden, settings.normalization, rng)
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.pairs: Pairs | None = None  # candidates and positives of the last refresh
        self.matrix: SparseMatrix | None = None  # the same pairs in the format of the loss
        self.centers: Tensor | None = None  # [m, k, d], of the last refresh
        self.age = 0  # steps since the last refresh

    def prepare(self, graph: Graph) -> Inputs:
        return Inputs(propagate(graph, self.settings.n_hops), edge_keys(graph))

    def initialize(self, inputs: Inputs) -> None:
        calibrate(self.target, inputs.propagated)
        calibrate(self.predictor, calibrate(self.encoder, inputs.propagated))

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        refresh, side = self._is_due(), SideStream(rng.device)
        if refresh:
            with side:
                rows = self._initial_rows(inputs.propagated.x.shape[0], rng)
        h = self.encoder(inputs.propagated)
        with torch.no_grad():
            t = self.target(inputs.propagated)
        if refresh:
            with side:
                labels = self._cluster(t, rows)
        z = self.predictor(h)
        if refresh:
            self._refresh_positives(h.detach(), t, inputs.edges, labels, side)
        assert self.matrix is not None
        return positive_pair_loss(z, t, self.matrix, over=self.settings.loss_over)

    def _is_due(self) -> bool:
        """Whether the next step refreshes the positives."""
        return self.pairs is None or self.age >= self.settings.refresh_every

    def capture_key(self) -> str | None:
        settings = self.settings
        # The number of pairs in the same cluster depends on the data, and the backward pass of a later layer's sparse
        # product sorts.
        if settings.positives == "clusters" or settings.n_layers > 1:
            return None
        if not self._is_due():
            return "reuse"
        if settings.search == "clusters" and settings.needs_clusters:  # the sizes of clusters depend on the data
            return None
        return "search" if self.centers is not None or not settings.needs_clusters else "first search"

    def after_step(self, progress: Progress) -> None:
        self.age = 1 if self._is_due() else self.age + 1
        ema_update(self.target, self.encoder, ema_decay(progress, self.settings.momentum, self.settings.schedule))

    def encode(self, inputs: Inputs) -> Tensor:
        h: Tensor = self.encoder(inputs.propagated)
        return h

    def _initial_rows(self, n: int, rng: torch.Generator) -> Tensor | None:
        """Random nodes as initial centers of k-means: [m, k]; None if it is warm-started or not run."""
        settings = self.settings
        warm = settings.warm_start and self.centers is not None
        if warm or not settings.needs_clusters:
            return None
        return random_rows(n, min(settings.n_clusters, n), settings.n_restarts, rng)

    def _cluster(self, t: Tensor, rows: Tensor | None) -> Tensor | None:
        """The cluster of each node in each k-means run: [m, n]; None if the rule for positives needs no clusters."""
        settings = self.settings
        if not settings.needs_clusters:
            return None
        k, m, iters = min(settings.n_clusters, t.shape[0]), settings.n_restarts, settings.kmeans_iters
        centers = self.centers if rows is None else None
        result = run_kmeans(
            t, k, unit=True, n_restarts=m, n_iters=iters, rows=rows, centers=centers, precision=settings.precision
        )
        self.centers = _in_place(self.centers, result.centers)
        return result.labels

    def _refresh_positives(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, side: SideStream) -> None:
        settings, n = self.settings, h.shape[0]
        if labels is not None and settings.positives == "clusters":
            side.join()
            self.pairs = same_cluster_pairs(labels, settings.include_self)
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, n)
            return
        clustering = None
        if labels is not None and self.centers is not None and settings.searches_clusters(n, h.device):
            side.join()
            clustering = Clustering(labels[0], self.centers[0])
        src, dst = candidate_pairs(h, t, settings.n_neighbors, settings.include_self, settings.precision, clustering)
        self.matrix = _in_place(self.matrix, pair_matrix(src, dst, n))  # sorts while k-means still runs on its stream
        side.join()
        pairs = filter_pairs(src, dst, n, edges, labels, settings.positives)
        self.matrix.set_values(pairs.is_positive)
        kind, is_positive = (None, None) if self.pairs is None else (self.pairs.kind, self.pairs.is_positive)
        self.pairs = Pairs(  # src and dst share the memory of the matrix
            self.matrix.rows,
            self.matrix.indices,
            _in_place(kind, pairs.kind),
            _in_place(is_positive, pairs.is_positive),
        )

    def diagnostics(self) -> dict[str, float]:
        if self.pairs is None:
            return {}
        pairs = self.pairs.compact()
        kind = pairs.kind[pairs.src != pairs.dst]
        shares = {"local": (kind & LOCAL) > 0, "global": (kind & GLOBAL) > 0}
        return {"pairs": len(pairs.src)} | {
            name: round(float(share.float().mean()), 4) if len(share) else 0.0 for name, share in shares.items()
        }

    def get_extra_state(self) -> dict[str, Any]:
        pairs = None if self.pairs is None else {field.name: getattr(self.pairs, field.name) for field in fields(Pairs)}
        nodes = 0 if self.matrix is None else self.matrix.shape[0]
        return {"pairs": pairs, "nodes": nodes, "centers": self.centers, "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.centers, self.age = state["centers"], state["age"]
        self.pairs = self.matrix = None
        if state["pairs"] is not None:
            self.pairs = Pairs(**state["pairs"])
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, state["nodes"], self.pairs.is_positive)


def _in_place(stored: Stored | None, new: Stored) -> Stored:
    """``new`` copied into the memory of ``stored``, where a captured CUDA graph reads it."""
    if stored is None:
        return new
    stored.copy_(new)
    return stored
