"""DGI: tell a node of the graph from one whose features were shuffled, by a summary of the graph
(Veličković et al., Deep Graph Infomax, ICLR 2019).

Costs a step: one product n·f·d, messages of 2·e·d, a discriminator n·d; memory n·(f + 4·d).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import GCN, GCNInputs, gcn_inputs, product, shuffled, weight_matrix
from afgrl.ops import gather


class DGIConfig(Settings):
    """The defaults are the authors', but for the number of epochs, which patience ended for them."""

    epochs: int | None = Field(300, ge=0, description="passes over the graph")
    weight_decay: float = Field(0.0, ge=0, description="Adam's pull of every parameter towards zero")
    patience: int = Field(20, ge=0, description="stop when the loss has not fallen for so many epochs; 0: never")
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")
    row_sums: bool = Field(True, description="scale each node's features to the sum 1")


class DGIMethod(Method):
    name = "dgi"
    Config = DGIConfig
    config: DGIConfig
    decoupled_decay = False

    def __init__(self, config: DGIConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        self.encoder = GCN([size.n_features, config.n_components], "prelu", "none", rng)
        self.discriminator = Discriminator(config.n_components, rng)

    def prepare(self, graph: Graph) -> GCNInputs:
        return gcn_inputs(graph, to_sum_one=self.config.row_sums)

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: GCNInputs, rng: torch.Generator) -> Tensor:
        real, corrupted = real_and_corrupted(self.encoder, inputs, rng)
        return self.discriminator(real, corrupted, real)

    @torch.no_grad()
    def represent(self, inputs: GCNInputs) -> Tensor:
        return self.encoder(inputs)


def real_and_corrupted(encoder: GCN, inputs: GCNInputs, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """One layer's vectors of the graph, and of the graph with its nodes' features shuffled; both from one product."""
    projected = product(inputs.x, encoder.weights[0])
    both = torch.cat([projected, projected[shuffled(projected.shape[0], rng)]], dim=1)
    real, corrupted = gather(inputs.links, inputs.weight, both).chunk(2, dim=1)
    return encoder.activate(0, real), encoder.activate(0, corrupted)


class Discriminator(nn.Module):
    """Whether a node belongs to a graph, by a bilinear form of its vector and the mean of the graph's."""

    def __init__(self, width: int, rng: torch.Generator) -> None:
        super().__init__()
        self.weight = weight_matrix(width, width, rng)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, real: Tensor, corrupted: Tensor, summarized: Tensor) -> Tensor:
        """The cross-entropy of telling ``real`` from ``corrupted`` by a summary of the rows of ``summarized``."""
        form = self.weight @ summarized.mean(0).sigmoid()
        return (F.softplus(-(real @ form + self.bias)) + F.softplus(corrupted @ form + self.bias)).mean() / 2
