"""AFGRL: predict, for each node, the target vectors of its positives
(Lee, Lee and Park, Augmentation-Free Self-Supervised Learning on Graphs, AAAI 2022).

The positives of a node are its nearest neighbors in embedding space that are also adjacent to it (local) or in its
cluster of k-means (global). Every step computes all rows, as in the paper; ``node_embedder`` trains in batches.

Complexity per step: O(n·(nnz + w)·d) for predictor_width w. Every ``refresh_every`` steps: O(n²·d) for the nearest
neighbors (about 10/K of it for a search in clusters) and O(n·M·K·d·kmeans_iters) for k-means. Memory: O(n·(f + d + w)).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size, positive_int
from afgrl.methods.defaults import FEW_NEIGHBORS, SPARSE_FEATURES
from afgrl.methods.parts.positive_search import PositiveSearch
from afgrl.methods.parts.positive_settings import LARGE, PositiveSettings, most_neighbors
from afgrl.methods.parts.positives import edge_keys
from afgrl.nn import Encoder, Predictor, Progress, calibrate, ema_decay, ema_update
from afgrl.ops.pair_loss import positive_pair_loss
from afgrl.ops.propagation import Propagated, propagate
from afgrl.ops.streams import SideStream


class AFGRLSettings(PositiveSettings, EpochSettings):
    """The defaults are for an unknown graph; the paper's settings are in recipes/afgrl.toml."""

    in_batches: ClassVar[bool] = False
    exact_on_cpu: ClassVar[int] = LARGE

    epochs: int = Field(ge=0, description="passes over the graph; by default 50 to 2,000, depending on the graph")
    n_components: int = Field(
        ge=1, description="width of the embedding (D); by default 512, of dense features of more than 50,000 nodes 128"
    )
    predictor_width: int = Field(ge=1, description="hidden width of the predictor; by default twice n_components")
    n_layers: int = Field(1, ge=1, description="GCN layers (L)")
    n_hops: int = Field(
        ge=0,
        description="features of the input; 0: SX, h: [X | SX | … | SʰX]; by default 0, 1 or 2, depending on the graph",
    )
    n_neighbors: int = Field(ge=1, description="nearest neighbors in embedding space (k); by default 4")
    refresh_every: int = Field(5, ge=1, description="epochs between refreshes of the positives")

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        """Large graphs save time where it costs the least quality: half the epochs for sparse features, a smaller width
        for dense ones. A second hop helps if nodes have few neighbors."""
        large, width = graph.n > LARGE, 512
        if graph.density >= SPARSE_FEATURES:
            n_hops, epochs, width = 0, 2000, 128 if large else 512
        elif graph.mean_degree >= FEW_NEIGHBORS:
            n_hops, epochs = 1, 150 if large else 300
        else:
            n_hops, epochs = 2, 50 if large else 100
        include_self = TypeAdapter(bool).validate_python(given.get("include_self", True))
        return {
            "n_hops": n_hops, "epochs": epochs, "n_components": width,
            "predictor_width": 2 * positive_int(given.get("n_components", width)),
            "n_neighbors": min(4, most_neighbors(graph.n, include_self)),
        }  # fmt: skip


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
        width, n_inputs = settings.n_components, size.n_features * (settings.n_hops + 1)
        self.encoder = Encoder(n_inputs, width, settings.n_layers, settings.normalization, rng)
        self.predictor = Predictor(width, settings.predictor_width, settings.normalization, rng)
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.search = PositiveSearch(settings)
        self.age = 0  # epochs since the last refresh of the positives

    def prepare(self, graph: Graph) -> Inputs:
        return Inputs(propagate(graph, self.settings.n_hops), edge_keys(graph))

    def initialize(self, inputs: Inputs) -> None:
        calibrate(self.target, inputs.propagated)
        calibrate(self.predictor, calibrate(self.encoder, inputs.propagated))

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        refresh, side = self._is_due(), SideStream(rng.device)  # on a GPU, k-means runs beside the encoder
        if refresh:
            with side:
                rows = self.search.initial_rows(inputs.propagated.x.shape[0], rng)
        h = self.encoder(inputs.propagated)
        with torch.no_grad():
            t = self.target(inputs.propagated)
        if refresh:
            with side:
                labels = self.search.cluster(t, rows, self.shards)
        z = self.predictor(h)
        if refresh:
            self.search.run(h.detach(), t, inputs.edges, labels, side)
        assert self.search.matrix is not None
        return positive_pair_loss(z, t, self.search.matrix, over=self.settings.loss_over)

    def after_step(self, progress: Progress) -> None:
        self.age = 1 if self._is_due() else self.age + 1
        ema_update(self.target, self.encoder, ema_decay(progress, self.settings.momentum, self.settings.schedule))

    def encode(self, inputs: Inputs) -> Tensor:
        h: Tensor = self.encoder(inputs.propagated)
        return h

    def _is_due(self) -> bool:
        """Whether the next epoch refreshes the positives."""
        return self.search.pairs is None or self.age >= self.settings.refresh_every

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
        return "search" if self.search.centers is not None or not settings.needs_clusters else "first search"

    def diagnostics(self) -> dict[str, float]:
        return self.search.diagnostics()

    def get_extra_state(self) -> dict[str, Any]:
        return {**self.search.state(), "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.search.restore(state)
        self.age = int(state["age"])
