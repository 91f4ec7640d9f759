"""DeepWalk: skip-gram with negative sampling over random walks; features are not used
(Perozzi et al., DeepWalk: Online Learning of Social Representations, KDD 2014).

Complexity per step of b walks of length l: O(b·l·(l + NOISE)·d) for the loss and O(n·d) for the optimizer; a run takes
n·walks_per_node / b steps. Memory: O(n·d + b·l·(d + l)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import EpochSettings, Settings
from afgrl.graph import Graph
from afgrl.methods.base import Size, Transductive, positive_int
from afgrl.ops.embedding import embedding_rows
from afgrl.ops.skipgram import negative_nodes, noise_distribution, skipgram_loss
from afgrl.ops.walks import WalkGraph, uniform_walks, walk_graph

# Random nodes that all pairs of a walk share as negatives, weighted as if each pair had its own n_negatives.
NOISE = 64


class DeepWalkSettings(EpochSettings):
    epochs: int = Field(ge=0, description="steps of batch_size walks; by default enough for walks_per_node")
    learning_rate: float = Field(0.01, gt=0, description="learning rate of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW, applied to every parameter")
    n_components: int = Field(128, ge=1, description="width of the embedding (D)")
    walks_per_node: int = Field(10, ge=1, description="walks that start at each node")
    walk_length: int = Field(80, ge=1, description="nodes of a walk")
    window: int = Field(10, ge=1, description="largest distance on a walk of two nodes that form a pair")
    n_negatives: int = Field(5, ge=1, description="negatives per pair")
    batch_size: int = Field(256, ge=1, description="walks per step")

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        per_node, per_step = (
            positive_int(given.get(name, cls.model_fields[name].default)) for name in ("walks_per_node", "batch_size")
        )
        return {"epochs": math.ceil(graph.n * per_node / per_step)}


@dataclass(frozen=True, eq=False)
class Inputs:
    graph: Graph
    walk_graph: WalkGraph
    noise: Tensor  # [n] float64, the cumulative distribution of negatives
    fingerprint: int


class DeepWalkMethod(Transductive):
    name = "deepwalk"
    capturable = True
    settings_class: ClassVar[type[Settings]] = DeepWalkSettings
    settings: DeepWalkSettings
    cursor: Tensor  # [] int64, the number of walks so far

    def __init__(self, settings: DeepWalkSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        shape = (size.n_nodes, settings.n_components)
        self.center = nn.Parameter(
            0.01 * torch.randn(shape, generator=rng)
        )  # near 0: all pairs start with the same score
        self.context = nn.Parameter(torch.zeros(shape))
        self.register_buffer("cursor", torch.zeros((), dtype=torch.int64))

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        return frozenset({"edges"})

    def prepare(self, graph: Graph) -> Inputs:
        neighbors = walk_graph(graph)
        return Inputs(graph, neighbors, noise_distribution(neighbors.degree), graph.fingerprint)

    def initialize(self, inputs: Inputs) -> None:
        self.fingerprint.fill_(inputs.fingerprint)

    def walks(self, inputs: Inputs, start: Tensor, rng: torch.Generator) -> Tensor:
        """One walk from each node of ``start`` [b]: [b, l] int64."""
        return uniform_walks(inputs.walk_graph, start, self.settings.walk_length, rng)

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        settings, n = self.settings, inputs.graph.n
        number = self.cursor + torch.arange(settings.batch_size, device=self.cursor.device)
        self.cursor += settings.batch_size
        walks = self.walks(inputs, number * _stride(n) % n, rng)
        negatives = negative_nodes(inputs.noise, settings.batch_size * NOISE, rng).view(settings.batch_size, NOISE)
        center, context = embedding_rows(self.center, walks), embedding_rows(self.context, walks)
        noise = embedding_rows(self.context, negatives)
        return skipgram_loss(center, context, noise, settings.window, settings.n_negatives)

    def encode(self, inputs: Inputs) -> Tensor:
        """The vector of a node without edges is 0: its walks never leave it."""
        return self.center * (inputs.walk_graph.degree > 0).unsqueeze(1)


def _stride(n: int) -> int:
    """A number coprime to n near the golden section: its multiples modulo n visit every node once, far apart."""
    return next(step for step in range(max(1, round(0.618 * n)), 2 * n + 1) if math.gcd(step, n) == 1)
