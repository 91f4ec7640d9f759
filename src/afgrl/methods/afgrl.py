"""AFGRL: predict, for each node, the target vectors of its real positives (Lee, Lee and Park, AAAI 2022).

Costs a step, for n nodes with f features, width d, k neighbors and M clusterings into K: products of
n·f·d and n·d·predictor_width for the networks, n²·d for the neighbors (about 10/K of it where only the nearest
clusters are looked into), n·M·K·d·kmeans_iters for the clusters (the last two only every ``refresh_every`` steps);
memory n·(f + d + predictor_width), as afgrl.estimate has it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypeVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import Encoder, Normalization, Predictor, Progress, Schedule, calibrate, follow, target_decay
from afgrl.ops import Aside, PairMatrix, Propagated, kmeans, pair_loss, pair_matrix, propagate, random_rows
from afgrl.ops.kmeans_faiss import kmeans_faiss
from afgrl.positives import (
    ADJACENT,
    CLUSTERED,
    SAME_CLUSTER,
    Groups,
    Pairs,
    Rule,
    cluster_mates,
    confirm,
    edge_keys,
    nearest,
)

Kept = TypeVar("Kept", Tensor, PairMatrix)

# Bags of words have 0.4 to 10 % non-zeros in the benchmark graphs, co-purchase reviews 35 %, pixels and word
# vectors more.
SPARSE_FEATURES = 0.2
# Citation graphs have 2.7 to 4.5 edges a node, co-author graphs 9 to 14.
FEW_NEIGHBORS = 6
# Nodes from which on a graph is large: two CPU cores would take more than a minute for one search of all pairs.
LARGE = 50_000


class AFGRLConfig(Settings):
    """The defaults are for a graph nobody has seen; the paper's own numbers are in recipes/afgrl.toml.

    What is left at None follows the graph: its features, degrees and size. Of sparse features (bags of words) each says
    much, so the node's own are kept beside the smoothed ones, and training soon has learned what there is: it only
    drifts afterwards. Where nodes have few neighbors, a second hop tells more. Dense features are noisier before they
    are smoothed and take longer (docs/deviations.md has the measurements). Large graphs save time where it costs least:
    half the epochs where features are sparse, and width where they are dense, which need their epochs.
    """

    epochs: int | None = Field(None, ge=0, description="passes over the graph; by default 50 to 2,000")

    n_components: int | None = Field(
        None,
        ge=1,
        description="width of the embedding (D); by default 512, or 128 beyond 50,000 nodes with dense features",
    )
    predictor_width: int | None = Field(
        None, ge=1, description="hidden width of the predictor; by default twice n_components"
    )
    n_layers: int = Field(1, ge=1, description="GCN layers (L); beyond the first they pass messages each step")
    n_hops: int | None = Field(
        None, ge=0, description="0: SX, the GCN's own input; h: [X | SX | … | SʰX]; by default 0, 1 or 2"
    )
    normalization: Normalization = Field("frozen", description="after each linear layer")
    n_neighbors: int = Field(4, ge=1, description="neighbors in embedding space (k)")
    search: Literal["auto", "exact", "clusters"] = Field(
        "auto",
        description="where neighbors are looked for; auto: in the nearest clusters on a CPU beyond 50,000 nodes, "
        "if the rule of positives makes clusters",
    )
    include_self: bool = Field(True, description="count the node itself as its first neighbor")
    positives: Rule = Field("all", description="which neighbors become positives")
    n_clusters: int = Field(100, ge=1, description="clusters of each k-means run (K)")
    n_restarts: int = Field(5, ge=1, description="k-means runs (M)")
    kmeans_iters: int = Field(20, ge=1, description="iterations of a k-means run")
    kmeans_backend: Literal["torch", "faiss"] = Field("torch", description="faiss as the authors run it, on the CPU")
    warm_start: bool = Field(True, description="start k-means from the last refresh's centers")
    refresh_every: int = Field(5, ge=1, description="steps between searches for positives")
    momentum: float = Field(0.9, ge=0, le=1, description="share the target keeps of itself in a step (τ)")
    schedule: Schedule = Field("cosine", description="how the momentum moves over training")
    loss_over: Literal["pairs", "nodes"] = Field("pairs", description="what the loss is a mean over")

    def looks_into_clusters(self, n: int, device: torch.device) -> bool:
        """Whether neighbors are looked for in the nearest clusters only."""
        wanted = self.search == "clusters" or (self.search == "auto" and n > LARGE and device.type == "cpu")
        return wanted and self.positives in CLUSTERED

    def adapted(self, graph: Graph) -> Self:
        large = graph.n > LARGE
        if graph.density >= SPARSE_FEATURES:
            fitting = {"n_hops": 0, "epochs": 2000, "n_components": 128 if large else 512}
        elif graph.mean_degree >= FEW_NEIGHBORS:
            fitting = {"n_hops": 1, "epochs": 150 if large else 300, "n_components": 512}
        else:
            fitting = {"n_hops": 2, "epochs": 50 if large else 100, "n_components": 512}
        fitting["predictor_width"] = 2 * (self.n_components or fitting["n_components"])
        return self.model_copy(update={name: value for name, value in fitting.items() if getattr(self, name) is None})


@dataclass(frozen=True, eq=False)
class Inputs:
    propagated: Propagated
    edges: Tensor  # [e] int64, from positives.edge_keys


class AFGRLMethod(Method):
    """An online encoder and predictor, and a target encoder that is their moving average."""

    name = "afgrl"
    Config = AFGRLConfig
    config: AFGRLConfig

    def __init__(self, config: AFGRLConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        n_hops, d, hidden = config.n_hops, config.n_components, config.predictor_width
        assert n_hops is not None, "the settings must be adapted to a graph first"
        assert d
        assert hidden
        self.encoder = Encoder(size.n_features * (n_hops + 1), d, config.n_layers, config.normalization, rng)
        self.predictor = Predictor(d, hidden, config.normalization, rng)
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.pairs: Pairs | None = None  # the positives of the last refresh
        self.matrix: PairMatrix | None = None  # the same, for the loss
        self.centers: Tensor | None = None  # [m, k, d], where the next k-means may start
        self.age = 0  # steps since the last refresh

    def prepare(self, graph: Graph) -> Inputs:
        assert self.config.n_hops is not None
        return Inputs(propagate(graph, self.config.n_hops), edge_keys(graph))

    def begin(self, inputs: Inputs) -> None:
        calibrate(self.target, inputs.propagated)
        calibrate(self.predictor, calibrate(self.encoder, inputs.propagated))

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        search, clustering = self._is_due(), Aside(rng.device)
        if search:
            with clustering:
                rows = self._first_centers(inputs.propagated.x.shape[0], rng)
        h = self.encoder(inputs.propagated)
        with torch.no_grad():
            t = self.target(inputs.propagated)
        if search:
            with clustering:
                labels = self._clusters(t, rows)
        z = self.predictor(h)
        if search:
            self._keep_positives(h.detach(), t, inputs.edges, labels, clustering)
        assert self.matrix is not None
        return pair_loss(z, t, self.matrix, over=self.config.loss_over)

    def _is_due(self) -> bool:
        return self.pairs is None or self.age >= self.config.refresh_every

    def recordable(self) -> str | None:
        config = self.config
        # The number of cluster mates follows the data, faiss runs on the CPU, and a sparse product of a later layer
        # sorts anew on its way back.
        if config.positives == "clusters" or config.kmeans_backend == "faiss" or config.n_layers > 1:
            return None
        if not self._is_due():
            return "reuse"
        if config.search == "clusters" and config.positives in CLUSTERED:  # whose sizes follow the data too
            return None
        return "search" if self.centers is not None or config.positives not in CLUSTERED else "first search"

    def after_step(self, progress: Progress) -> None:
        self.age = 1 if self._is_due() else self.age + 1
        follow(self.target, self.encoder, target_decay(progress, self.config.momentum, self.config.schedule))

    @torch.no_grad()
    def represent(self, inputs: Inputs) -> Tensor:
        was_training = self.training
        self.eval()
        h = self.encoder(inputs.propagated)
        self.train(was_training)
        return h

    def _first_centers(self, n: int, rng: torch.Generator) -> Tensor | None:
        """The rows k-means starts from: [m, k]; none where it starts from the last centers, or is not run."""
        config = self.config
        warm = config.warm_start and self.centers is not None
        if config.positives not in CLUSTERED or config.kmeans_backend == "faiss" or warm:
            return None
        return random_rows(n, min(config.n_clusters, n), config.n_restarts, rng)

    def _clusters(self, t: Tensor, rows: Tensor | None) -> Tensor | None:
        """The cluster of each node in each run: [m, n]."""
        config = self.config
        if config.positives not in CLUSTERED:
            return None
        k, m, iters = min(config.n_clusters, t.shape[0]), config.n_restarts, config.kmeans_iters
        if config.kmeans_backend == "faiss":
            found = kmeans_faiss(F.normalize(t), k, n_restarts=m, n_iters=iters)
            self.centers = found.centers
            return found.labels
        centers = self.centers if rows is None else None
        found = kmeans(
            t, k, unit=True, n_restarts=m, n_iters=iters, rows=rows, centers=centers, precision=config.precision
        )
        self.centers = _in_place(self.centers, found.centers)
        return found.labels

    def _keep_positives(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, clustering: Aside) -> None:
        config, n = self.config, h.shape[0]
        if config.positives == "clusters":  # there are as many as the data will have it
            assert labels is not None
            clustering.join()
            self.pairs = cluster_mates(labels, config.include_self)
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, n)
            return
        groups = None
        if config.looks_into_clusters(n, h.device):
            assert labels is not None
            assert self.centers is not None
            clustering.join()
            groups = Groups(labels[0], self.centers[0])
        src, dst = nearest(h, t, config.n_neighbors, config.include_self, config.precision, groups)
        self.matrix = _in_place(self.matrix, pair_matrix(src, dst, n))  # sorts, while the clustering still runs
        clustering.join()
        pairs = confirm(src, dst, n, edges, labels, config.positives)
        self.matrix.weight.copy_(pairs.kept)
        # Both ends lie in the matrix already.
        why, kept = (None, None) if self.pairs is None else (self.pairs.why, self.pairs.kept)
        self.pairs = Pairs(self.matrix.src, self.matrix.other, _in_place(why, pairs.why), _in_place(kept, pairs.kept))

    def diagnostics(self) -> dict[str, float]:
        if self.pairs is None:
            return {}
        pairs = self.pairs.compact()
        reasons = pairs.why[pairs.src != pairs.dst]
        shares = {"local": (reasons & ADJACENT) > 0, "global": (reasons & SAME_CLUSTER) > 0}
        return {"pairs": len(pairs.src)} | {
            name: round(float(share.float().mean()), 4) if len(share) else 0.0 for name, share in shares.items()
        }

    def get_extra_state(self) -> dict[str, Any]:
        pairs = None if self.pairs is None else {field.name: getattr(self.pairs, field.name) for field in fields(Pairs)}
        nodes = 0 if self.matrix is None else self.matrix.n
        return {"pairs": pairs, "nodes": nodes, "centers": self.centers, "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.centers, self.age = state["centers"], state["age"]
        self.pairs = self.matrix = None
        if state["pairs"] is not None:
            self.pairs = Pairs(**state["pairs"])
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, state["nodes"], self.pairs.kept)


def _in_place(kept: Kept | None, new: Kept) -> Kept:
    """What is kept from step to step stays where it is: a recorded step finds it there."""
    if kept is None:
        return new
    kept.copy_(new)
    return kept
