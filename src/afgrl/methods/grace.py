"""GRACE: tell a node's vector in another view of the graph from those of all other nodes, in both views
(Zhu et al., Deep Graph Contrastive Representation Learning, ICML workshop 2020).

Costs a step: products n·f·hidden_width four times, messages of 4·e·(hidden_width + d), and 12·n²·d for the contrast;
memory n·(f + 8·hidden_width + 16·d): the contrast is computed in blocks, never as n² similarities.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN, MLP, Activation
from afgrl.ops import info_nce


class GRACEConfig(ViewSettings):
    projection_width: int = Field(256, ge=1, description="hidden width of the projection that the contrast is made on")
    activation: Activation = Field("prelu", description="after each layer of the encoder")
    temperature: float = Field(0.4, gt=0, description="of the contrast: the lower, the more the nearest count")


class GRACEMethod(Method):
    name = "grace"
    Config: ClassVar[type[Settings]] = GRACEConfig
    config: GRACEConfig
    decoupled_decay = False

    def __init__(self, config: GRACEConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        d = config.n_components
        self.encoder = GCN([size.n_features, config.hidden_width, d], config.activation, "none", rng)
        self.projection = MLP(d, config.projection_width, d, nn.ELU(), rng)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.config)

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        z1, z2 = (self.projection(h) for (h,) in inputs.encoded([self.encoder], rng))
        return info_nce(z1, z2, self.config.temperature, precision=self.config.precision)

    @torch.no_grad()
    def represent(self, inputs: ViewInputs) -> Tensor:
        return self.encoder(inputs.gcn)
