"""A baseline without training: principal directions of the multi-hop features [X | SX | S²X | S³X].

Complexity, for edges e, stored features nnz and r = 512: O(nnz·r + e·r + n·r²). Memory: O(n·r).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import Size, TrainingFree, TrainingFreeSettings
from afgrl.methods.parts.spectral import SpectralFeatures
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.storage import unit_table


class SVDSettings(TrainingFreeSettings):
    n_components: int = Field(512, ge=1, description="width of the embedding; at most 4 times the number of features")


class SpectralInputs(NamedTuple):
    x: Tensor  # [n, f] dense or CSR
    adjacency: Tensor  # [n, n] CSR: S


class SVDMethod(TrainingFree):
    name = "svd"
    settings_class = SVDSettings
    settings: SVDSettings

    def __init__(self, settings: SVDSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        self.spectral = SpectralFeatures(*size, settings.n_components)

    def prepare(self, graph: Graph) -> SpectralInputs:
        return SpectralInputs(graph.x, gcn_norm(graph))

    def initialize(self, inputs: SpectralInputs) -> None:
        self.spectral.fit(*inputs)

    def encode(self, inputs: SpectralInputs) -> Tensor:
        return unit_table(self.spectral(*inputs))
