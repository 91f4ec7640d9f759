"""DeepWalk: a vector for each node, from which those met near it on random walks can be told
(Perozzi et al., DeepWalk: Online Learning of Social Representations, KDD 2014; with negative samples as word2vec).

Costs a step of b walks of length l: products 2·b·l·(l + negatives)·d, and 8·n·d to move both tables; a training takes
n·walks_per_node / b steps. Memory 8·n·d + b·l·(4·d + 2·l). Features are not read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import NodeTable, Size
from afgrl.ops import Neighborhoods, lookup, negative_nodes, neighborhoods, noise, skipgram_loss, uniform_walks

# Nodes that all pairs of a walk share as negatives, weighted as if each had its own.
NOISE = 64


class DeepWalkConfig(Settings):
    epochs: int | None = Field(None, ge=0, description="steps of batch_size walks; by default walks_per_node from each")
    learning_rate: float = Field(0.01, gt=0, description="step size of Adam")
    weight_decay: float = Field(0.0, ge=0, description="Adam's pull of every parameter towards zero")
    n_components: int = Field(128, ge=1, description="width of the embedding (D)")
    walks_per_node: int = Field(10, ge=1, description="that start at each node")
    walk_length: int = Field(80, ge=1, description="nodes on a walk")
    window: int = Field(10, ge=1, description="how far apart on a walk two nodes may be to count as near")
    n_negatives: int = Field(5, ge=1, description="random nodes against each that was met")
    batch_size: int = Field(256, ge=1, description="walks of a step")

    def adapted(self, graph: Graph) -> Self:
        if self.epochs is not None:
            return self
        return self.model_copy(update={"epochs": math.ceil(graph.n * self.walks_per_node / self.batch_size)})


@dataclass(frozen=True, eq=False)
class Inputs:
    graph: Graph
    near: Neighborhoods
    noise: Tensor  # [n] float64, which nodes negatives are drawn from
    fingerprint: int


class DeepWalkMethod(NodeTable):
    name = "deepwalk"
    Config: ClassVar[type[Settings]] = DeepWalkConfig
    config: DeepWalkConfig
    cursor: Tensor  # [] int64, walks begun

    def __init__(self, config: DeepWalkConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        shape = (size.n_nodes, config.n_components)
        self.center = nn.Parameter(0.01 * torch.randn(shape, generator=rng))  # near zero, where all pairs look alike
        self.context = nn.Parameter(torch.zeros(shape))
        self.register_buffer("cursor", torch.zeros((), dtype=torch.int64))

    def prepare(self, graph: Graph) -> Inputs:
        near = neighborhoods(graph)
        return Inputs(graph, near, noise(near.degree), graph.fingerprint)

    def begin(self, inputs: Inputs) -> None:
        self.fingerprint.fill_(inputs.fingerprint)

    def recordable(self) -> str | None:
        return "step"

    def walks(self, inputs: Inputs, begin: Tensor, rng: torch.Generator) -> Tensor:
        return uniform_walks(inputs.near, begin, self.config.walk_length, rng)

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        config, n = self.config, inputs.graph.n
        turn = self.cursor + torch.arange(config.batch_size, device=self.cursor.device)
        self.cursor += config.batch_size
        walks = self.walks(inputs, turn * _stride(n) % n, rng)
        others = negative_nodes(inputs.noise, config.batch_size * NOISE, rng).view(config.batch_size, NOISE)
        center, context = lookup(self.center, walks), lookup(self.context, walks)
        return skipgram_loss(center, context, lookup(self.context, others), config.window, config.n_negatives)

    @torch.no_grad()
    def represent(self, inputs: Inputs) -> Tensor:
        """Zeros for a node without edges: no walk tells anything of it."""
        return self.center * (inputs.near.degree > 0).unsqueeze(1)


def _stride(n: int) -> int:
    """Nodes taken so far apart come in no order of the numbering, and each exactly once in n."""
    return next(step for step in range(max(1, round(0.618 * n)), 2 * n + 1) if math.gcd(step, n) == 1)
