"""GRACE: InfoNCE between two augmented views; the negatives are all other nodes of both views
(Zhu et al., Deep Graph Contrastive Representation Learning, ICML workshop 2020).

Complexity per step, for edges e and hidden_width w: O(n·f·w + n·w·d) for the layers, O(e·(w + d)) for the messages and
O(n²·d) for the loss. Memory: O(n·(f + w + d)); the n² similarities are computed in blocks.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN, MLP, Activation
from afgrl.ops.infonce import info_nce


class GRACESettings(ViewSettings):
    projection_width: int = Field(256, ge=1, description="hidden width of the projection head")
    activation: Activation = Field("prelu", description="activation after each layer of the encoder")
    temperature: float = Field(
        0.4, gt=0, description="temperature of InfoNCE; lower values emphasize the nearest negatives"
    )


class GRACEMethod(Method):
    name = "grace"
    capturable = True
    settings_class: ClassVar[type[Settings]] = GRACESettings
    settings: GRACESettings
    decoupled_decay = False

    def __init__(self, settings: GRACESettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        d = settings.n_components
        self.encoder = GCN([size.n_features, settings.hidden_width, d], settings.activation, "none", rng)
        self.projection = MLP(d, settings.projection_width, d, nn.ELU(), rng)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.settings)

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        z1, z2 = (self.projection(h) for (h,) in inputs.encoded([self.encoder], rng))
        return info_nce(z1, z2, self.settings.temperature, precision=self.settings.precision)

    def encode(self, inputs: ViewInputs) -> Tensor:
        return self.encoder(inputs.gcn)
