"""A baseline without training: an encoder with random weights on propagated features.

Complexity: O(n·f·d). Memory: O(n·(f + d)).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import Size, TrainingFree, TrainingFreeSettings
from afgrl.nn import Encoder, calibrate
from afgrl.ops.propagation import Propagated, propagate


class RandomSettings(TrainingFreeSettings):
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")


class RandomMethod(TrainingFree):
    """AFGRL's encoder as in the paper, with one GCN layer, before training."""

    name = "random"
    settings_class = RandomSettings
    settings: RandomSettings

    def __init__(self, settings: RandomSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        self.encoder = Encoder(size.n_features, settings.n_components, 1, "frozen", rng).requires_grad_(False)

    def prepare(self, graph: Graph) -> Propagated:
        return propagate(graph)

    def initialize(self, inputs: Propagated) -> None:
        calibrate(self.encoder, inputs)

    def encode(self, inputs: Propagated) -> Tensor:
        return self.encoder(inputs)
