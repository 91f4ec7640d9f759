"""The settings of the search for positives and of the target network."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.parts.positives import CLUSTER_RULES, Rule
from afgrl.nn import Normalization, Schedule

# Nodes above which a graph is large: one search over all pairs takes more than a minute on two CPU cores.
LARGE = 50_000
EXACT_ON_GPU = 2_000_000  # nodes up to which a GPU searches exactly: that takes 4 s on an H200


class PositiveSettings(Settings):
    """Fields without a default follow the graph."""

    in_batches: ClassVar[bool]  # whether a step reads some rows, with targets that are constant between refreshes
    exact_on_cpu: ClassVar[int]  # nodes up to which a CPU searches exactly

    n_components: int = Field(ge=1, description="width of the embedding (D)")
    predictor_width: int = Field(ge=1, description="hidden width of the predictor")
    normalization: Normalization = Field(
        "frozen", description="normalization after each linear layer; frozen: batch normalization with fixed statistics"
    )
    n_neighbors: int = Field(ge=1, description="nearest neighbors in embedding space (k)")
    search: Literal["auto", "exact", "clusters"] = Field(
        "auto",
        description="search for nearest neighbors; exact: all nodes, clusters: the nearest clusters only, auto: "
        "clusters for many nodes, if the rule for positives uses clusters, otherwise exact",
    )
    include_self: bool = Field(True, description="count a node as its own first neighbor")
    positives: Rule = Field(
        "all", description="rule for positives; all: neighbors that are adjacent or share a cluster (equation 2)"
    )
    n_clusters: int = Field(100, ge=1, description="clusters per k-means run (K)")
    n_restarts: int = Field(5, ge=1, description="k-means runs (M)")
    kmeans_iters: int = Field(20, ge=1, description="iterations per k-means run")
    warm_start: bool = Field(True, description="start k-means from the centers of the previous refresh")
    refresh_every: int = Field(ge=1, description="steps between refreshes of the positives")
    momentum: float = Field(0.9, ge=0, le=1, description="EMA decay of the target encoder (τ)")
    schedule: Schedule = Field("cosine", description="schedule of the EMA decay; authors: that of the authors' code")
    loss_over: Literal["pairs", "nodes"] = Field("pairs", description="what the loss is averaged over")

    @property
    def width(self) -> int:
        """Of the encoder."""
        return self.n_components

    @property
    def needs_clusters(self) -> bool:
        return self.positives in CLUSTER_RULES

    def searches_clusters(self, n: int, device: torch.device) -> bool:
        """Whether nearest neighbors are searched in the nearest clusters only."""
        most = self.exact_on_cpu if device.type == "cpu" else EXACT_ON_GPU
        preferred = self.search == "clusters" or (self.search == "auto" and n > most)
        return preferred and self.needs_clusters

    def check_graph(self, graph: Graph) -> None:
        most = most_neighbors(graph.n, self.include_self)
        if self.n_neighbors > most:
            counted = " with the node itself" if self.include_self else ""
            raise UserError(
                f"The setting 'n_neighbors' cannot be {self.n_neighbors}: a graph of {graph.n:,} nodes has at most "
                f"{most} per node{counted}."
            )


def most_neighbors(n: int, include_self: bool) -> int:
    """Nodes that can be candidates of a node; 1 for a single node, although it has no other."""
    return max(1, n if include_self else n - 1)
