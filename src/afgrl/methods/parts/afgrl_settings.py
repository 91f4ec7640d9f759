"""The settings of AFGRL, and how their defaults follow the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from pydantic import Field, NonNegativeInt, TypeAdapter, model_validator

from afgrl.config import BatchSettings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.base import positive_int
from afgrl.methods.parts.positives import CLUSTER_RULES, Rule
from afgrl.methods.parts.spectral import HUGE, RANK
from afgrl.nn import Normalization, Schedule

# Density below which features count as sparse. Bags of words have 0.4 to 14 % non-zeros in the benchmark graphs,
# co-purchase reviews 35 %, pixels and word vectors more.
SPARSE_FEATURES = 0.2
# Mean degree below which nodes have few neighbors. Citation graphs have 2.7 to 4.5 edges per node, co-author graphs 9
# to 14.
FEW_NEIGHBORS = 6
# Nodes above which a graph is large: one search over all pairs takes more than a minute on two CPU cores.
LARGE = 50_000
# Nodes above which a CPU searches in clusters between batches: on CS (18,333 nodes) an exact search takes as long as a
# hundred steps.
EXACT_IN_BATCHES = 10_000
EXACT_ON_GPU = 2_000_000  # the same on a GPU: an exact search among that many takes 4 s on an H200
HUGE_WIDTH = 128  # of the embedding: half a gigabyte for a million nodes
BATCH_SIZE = 1024
FEWEST_STEPS = 30  # of small graphs
UNTRAINED_COLUMNS = (
    2  # per feature: half of those that svd has, so that its columns and the encoder's fill the embedding
)


class AFGRLSettings(BatchSettings):
    """The defaults are for an unknown graph; the paper's settings are in recipes/afgrl.toml.

    Fields without a default depend on the features, the degrees and the size of the graph (docs/default.md has the
    measurements). By default training runs in batches of rows; ``epochs`` or ``batch_size=0`` select full batches.
    """

    steps: int = Field(
        ge=0,
        description="steps in batches; by default 300 to 700, depending on the graph, fewer for small graphs; 0 in "
        "full batches",
    )
    batch_size: int = Field(
        ge=0,
        description="rows per step; 0: all rows at every step (full batch), as in the paper; by default 1,024, or 0 if "
        "epochs is set or the encoder has several layers",
    )
    dropout: float = Field(
        ge=0, lt=1, description="share of the encoder's input that a step drops; batches only; by default 0.25 or 0.7"
    )
    n_components: int = Field(
        ge=1,
        description="width of the embedding (D); by default 512, and for more than 50,000 nodes 1,024 in batches (128 "
        "for more than 500,000), 128 in full batches on dense features",
    )
    encoder_width: int = Field(
        ge=1,
        description="width of the encoder; by default n_components; in batches twice that on dense features of at "
        "most 50,000 nodes, and half of it on sparse ones with many neighbors per node and more nodes",
    )
    predictor_width: int = Field(
        ge=1, description="hidden width of the predictor; by default encoder_width, in full batches twice that"
    )
    skip: Literal["none", "svd", "svd+ppr"] = Field(
        description="vectors without training that the embedding contains beside the trained ones; svd: those of the "
        "method svd, svd+ppr: also those of ppr, none: the method of the paper; by default svd+ppr, svd for sparse "
        "features and many neighbors per node of at most 50,000 nodes, none in full batches"
    )
    input: Literal["features", "own", "svd"] = Field(
        description="input of the encoder; features: see n_hops, own: X, svd: 1,024 principal directions of [X | SX | "
        "S²X | S³X]; in batches by default svd for dense features, features for few neighbors per node, and otherwise "
        "own, or svd for more than 50,000 nodes"
    )
    neighbor_weight: float = Field(
        ge=0,
        description="weight of the mean target vector of a node's neighbors as a further positive, relative to all "
        "others; batches only; by default 1 if input is own, otherwise 0",
    )
    n_layers: int = Field(1, ge=1, description="GCN layers (L); more than one need full batches")
    n_hops: int = Field(
        ge=0,
        description="features of the input; 0: SX, h: [X | SX | … | SʰX]; by default 0, 1 or 2, depending on the graph",
    )
    normalization: Normalization = Field(
        "frozen", description="normalization after each linear layer; frozen: batch normalization with fixed statistics"
    )
    n_neighbors: int = Field(
        ge=1,
        description="nearest neighbors in embedding space (k), at most as many as there are; by default 12, for dense "
        "features and in full batches 4",
    )
    search: Literal["auto", "exact", "clusters"] = Field(
        "auto",
        description="search for nearest neighbors; exact: all nodes, clusters: the nearest clusters only, "
        "auto: clusters on a CPU for more than 10,000 nodes (50,000 in full batches) and on a GPU for more than 2 "
        "million, if the rule for positives uses clusters, otherwise exact",
    )
    include_self: bool = Field(True, description="count a node as its own first neighbor")
    positives: Rule = Field(
        "all", description="rule for positives; all: neighbors that are adjacent or share a cluster (equation 2)"
    )
    n_clusters: int = Field(100, ge=1, description="clusters per k-means run (K)")
    n_restarts: int = Field(5, ge=1, description="k-means runs (M)")
    kmeans_iters: int = Field(20, ge=1, description="iterations per k-means run")
    warm_start: bool = Field(True, description="start k-means from the centers of the previous refresh")
    refresh_every: int = Field(
        ge=1,
        description="steps between refreshes of positives and targets; by default 20 to 200, in full batches 5",
    )
    momentum: float = Field(0.9, ge=0, le=1, description="EMA decay of the target encoder (τ)")
    schedule: Schedule = Field("cosine", description="schedule of the EMA decay; authors: that of the authors' code")
    loss_over: Literal["pairs", "nodes"] = Field("pairs", description="what the loss is averaged over")

    @property
    def needs_clusters(self) -> bool:
        return self.positives in CLUSTER_RULES

    def searches_clusters(self, n: int, device: torch.device) -> bool:
        """Whether nearest neighbors are searched in the nearest clusters only."""
        on_cpu = EXACT_IN_BATCHES if self.in_batches else LARGE
        most = on_cpu if device.type == "cpu" else EXACT_ON_GPU
        preferred = self.search == "clusters" or (self.search == "auto" and n > most)
        return preferred and self.needs_clusters

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        in_batches = _in_batches(given)
        values = _batch_defaults(graph) if in_batches else _full_batch_defaults(graph)
        values["batch_size"] = BATCH_SIZE if in_batches else 0
        values["neighbor_weight"] = 1.0 if in_batches and given.get("input", values["input"]) == "own" else 0.0
        width = positive_int(given.get("n_components", values["n_components"]))
        values["encoder_width"] = width
        if in_batches and given.get("skip") != "none":
            if graph.density >= SPARSE_FEATURES and graph.n <= LARGE:
                values["encoder_width"] = 2 * width
            elif (
                graph.n <= HUGE
                and graph.density < SPARSE_FEATURES
                and values["input"] == "svd"
                and width <= 2 * min(graph.n_features, RANK)
            ):
                values["encoder_width"] = max(1, width // 2)  # vectors without training fill the other columns
        encoder_width = positive_int(given.get("encoder_width", values["encoder_width"]))
        values["predictor_width"] = encoder_width if in_batches else 2 * encoder_width
        include_self = TypeAdapter(bool).validate_python(given.get("include_self", True))
        values["n_neighbors"] = min(values["n_neighbors"], most_neighbors(graph.n, include_self))
        return values

    @classmethod
    def warning(cls, given: Mapping[str, Any]) -> str | None:
        if "batch_size" in given or _in_batches(given):
            return None
        setting = "epochs" if "epochs" in given else "n_layers"
        return (
            f"The setting {setting!r} selects full batches, as in the paper: the embedding is then the trained vectors "
            "alone, which often score below the default. Set 'steps' for longer or shorter training of the default, or "
            "batch_size=0 if you want full batches."
        )

    def check_graph(self, graph: Graph) -> None:
        most = most_neighbors(graph.n, self.include_self)
        if self.n_neighbors > most:
            counted = " with the node itself" if self.include_self else ""
            raise UserError(
                f"The setting 'n_neighbors' cannot be {self.n_neighbors}: a graph of {graph.n:,} nodes has at most "
                f"{most} per node{counted}."
            )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.in_batches and self.n_layers > 1:
            raise ValueError("batches need n_layers=1; batch_size=0 trains several layers in full batches")
        batches_only = self.steps or self.dropout or self.neighbor_weight or self.skip != "none"
        if not self.in_batches and (batches_only or self.input != "features"):
            raise ValueError("steps, dropout, skip, input and neighbor_weight need batches; set batch_size, no epochs")
        if self.skip == "none" and self.encoder_width != self.n_components:
            raise ValueError("without skip, the embedding is the encoder's output: encoder_width equals n_components")
        return self


def most_neighbors(n: int, include_self: bool) -> int:
    """Nodes that can be candidates of a node; 1 for a single node, although it has no other."""
    return max(1, n if include_self else n - 1)


def _in_batches(given: Mapping[str, Any]) -> bool:
    """What the given settings say; ``epochs``, several layers or batch_size=0 ask for full batches."""
    parse = TypeAdapter(NonNegativeInt).validate_python
    if "batch_size" in given:
        return parse(given["batch_size"]) > 0
    return "epochs" not in given and parse(given.get("n_layers", 1)) == 1


def _batch_defaults(graph: Graph) -> dict[str, Any]:
    """How the input follows the graph: principal directions if the features, or those of two hops, are dense; X alone
    if a node has many neighbors to be predicted from it; otherwise the features of two hops."""
    large, many_neighbors = graph.n > LARGE, graph.mean_degree >= FEW_NEIGHBORS
    width = HUGE_WIDTH if graph.n > HUGE else 1024 if large else 512
    shared = {"epochs": 0, "n_components": width, "n_hops": 1, "n_neighbors": 12, "dropout": 0.7}
    if graph.density >= SPARSE_FEATURES:
        own = {"input": "svd", "skip": "svd+ppr", "dropout": 0.25, "n_neighbors": 4, "refresh_every": 50}
        steps, steps_per_node = 700, 1 / 4
    elif many_neighbors and not large:
        own = {"input": "own", "skip": "svd", "refresh_every": 100}
        steps, steps_per_node = 600, 1 / 4
    else:
        own = {
            "input": "svd" if many_neighbors else "features",
            "skip": "svd+ppr",
            "n_hops": 1 if many_neighbors else 2,
        }
        own["refresh_every"] = 20 if graph.n <= EXACT_IN_BATCHES else 50
        steps, steps_per_node = 400 if large else 300, 1 / 16
    if large:  # has more to tell apart, and a refresh takes longer
        own["refresh_every"] = 200 if own["input"] == "svd" and graph.density < SPARSE_FEATURES else 100
    if graph.n > HUGE:  # a refresh takes longer than all steps
        own["refresh_every"], steps = 200, 400
    return shared | own | {"steps": min(steps, max(FEWEST_STEPS, round(steps_per_node * graph.n)))}


def _full_batch_defaults(graph: Graph) -> dict[str, Any]:
    """Large graphs save time where it costs the least quality: half the epochs for sparse features, a smaller width for
    dense ones. A second hop helps if nodes have few neighbors."""
    large = graph.n > LARGE
    shared = {"steps": 0, "dropout": 0.0, "skip": "none", "input": "features", "n_neighbors": 4, "refresh_every": 5}
    if graph.density >= SPARSE_FEATURES:
        return shared | {"n_hops": 0, "epochs": 2000, "n_components": 128 if large else 512}
    if graph.mean_degree >= FEW_NEIGHBORS:
        return shared | {"n_hops": 1, "epochs": 150 if large else 300, "n_components": 512}
    return shared | {"n_hops": 2, "epochs": 50 if large else 100, "n_components": 512}
