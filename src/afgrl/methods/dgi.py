"""DGI: distinguish the nodes of the graph from those of a graph with shuffled features, given a summary vector
(Veličković et al., Deep Graph Infomax, ICLR 2019).

Complexity per step, for edges e: O(n·f·d) for the layer and O(e·d) for the messages. Memory: O(n·(f + d)).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.augmentations import random_permutation
from afgrl.nn import GCN, GCNInputs, gcn_inputs, padded_matmul, weight_matrix
from afgrl.ops.sparse import spmm


class DGISettings(EpochSettings):
    """The defaults are the authors', except for the number of epochs, which they leave to ``patience``."""

    epochs: int = Field(300, ge=0, description="passes over the graph")
    weight_decay: float = Field(0.0, ge=0, description="L2 regularization of Adam, applied to every parameter")
    patience: int = Field(20, ge=0, description="stop after this many epochs without a lower loss; 0: never")
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")
    row_sums: bool = Field(True, description="scale the features of each node to the sum 1")


class DGIMethod(Method):
    name = "dgi"
    capturable = True
    settings_class = DGISettings
    settings: DGISettings
    decoupled_decay = False

    def __init__(self, settings: DGISettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        self.encoder = GCN([size.n_features, settings.n_components], "prelu", "none", rng)
        self.discriminator = Discriminator(settings.n_components, rng)

    def prepare(self, graph: Graph) -> GCNInputs:
        return gcn_inputs(graph, to_sum_one=self.settings.row_sums)

    def loss(self, inputs: GCNInputs, rng: torch.Generator) -> Tensor:
        real, corrupted = real_and_corrupted(self.encoder, inputs, rng)
        return self.discriminator(real, corrupted, real)

    def encode(self, inputs: GCNInputs) -> Tensor:
        return self.encoder(inputs)


def real_and_corrupted(encoder: GCN, inputs: GCNInputs, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The vectors of the graph, and of the graph whose features are shuffled among the nodes: both [n, d].

    One product ``XW`` serves both; ``encoder`` has one layer.
    """
    projected = padded_matmul(inputs.x, encoder.weights[0])
    both = torch.cat([projected, projected[random_permutation(projected.shape[0], rng)]], dim=1)
    real, corrupted = spmm(inputs.adjacency, both, inputs.values).chunk(2, dim=1)
    return encoder.activate(0, real), encoder.activate(0, corrupted)


class Discriminator(nn.Module):
    """Scores whether a node belongs to a graph: a bilinear form of its vector and the summary of the graph."""

    def __init__(self, width: int, rng: torch.Generator) -> None:
        super().__init__()
        self.weight = weight_matrix(width, width, rng)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, real: Tensor, corrupted: Tensor, summarized: Tensor) -> Tensor:
        """The cross-entropy of distinguishing ``real`` from ``corrupted``, given the summary of ``summarized``."""
        form = self.weight @ summarized.mean(0).sigmoid()
        return (F.softplus(-(real @ form + self.bias)) + F.softplus(corrupted @ form + self.bias)).mean() / 2
