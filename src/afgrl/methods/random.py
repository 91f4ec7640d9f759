"""An untrained encoder: what random weights already make of the smoothed features.

Costs one product n·f·d; memory n·(f + d).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import FreeSettings, Size, TrainingFree
from afgrl.nn import Encoder, calibrate
from afgrl.ops import Propagated, propagate


class RandomConfig(FreeSettings):
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")


class RandomMethod(TrainingFree):
    """AFGRL's encoder of the paper, one GCN layer, before its first step."""

    name = "random"
    Config = RandomConfig
    config: RandomConfig

    def __init__(self, config: RandomConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        self.encoder = Encoder(size.n_features, config.n_components, 1, "frozen", rng).requires_grad_(False)

    def prepare(self, graph: Graph) -> Propagated:
        return propagate(graph)

    def begin(self, inputs: Propagated) -> None:
        calibrate(self.encoder, inputs)

    @torch.no_grad()
    def represent(self, inputs: Propagated) -> Tensor:
        return self.encoder(inputs)
