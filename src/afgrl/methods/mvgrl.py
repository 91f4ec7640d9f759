"""MVGRL: DGI across two views of the graph, its edges and their diffusion
(Hassani and Khasahmadi, Contrastive Multi-View Representation Learning on Graphs, ICML 2020).

Complexity before training, for edges e: O(e·n) for each term of the diffusion's series. Complexity per step: O(n·f·d)
for the layers and O((e + n·keep)·d) for the messages. Memory: O(n·(f + d + keep)).

The authors' diffusion matrix is dense, so they train on samples of 2,000 nodes. Here it is sparse, and every step
trains on all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.dgi import DGISettings, Discriminator, real_and_corrupted
from afgrl.methods.parts.diffusion import heat, personalized_pagerank
from afgrl.nn import GCN, GCNInputs, gcn_inputs
from afgrl.ops.sparse.matrix import SparseMatrix


class MVGRLSettings(DGISettings):
    diffusion: Literal["ppr", "heat"] = Field(
        "ppr", description="diffusion of the second view: personalized PageRank or the heat kernel"
    )
    alpha: float = Field(0.2, gt=0, le=1, description="restart probability of personalized PageRank")
    time: float = Field(5.0, gt=0, description="diffusion time of the heat kernel")
    keep: int = Field(64, ge=1, description="number of largest entries kept in each row of the diffusion matrix")


@dataclass(frozen=True, eq=False)
class Inputs:
    edges: GCNInputs  # the first view: the normalized adjacency
    diffused: GCNInputs  # the second view: the diffusion matrix


class MVGRLMethod(Method):
    """Two encoders, one per view; the vector of a node is the sum of their outputs."""

    name = "mvgrl"
    capturable = True
    settings_class = MVGRLSettings
    settings: MVGRLSettings
    decoupled_decay = False

    def __init__(self, settings: MVGRLSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        widths = [size.n_features, settings.n_components]
        self.encoder, self.diffused_encoder = (GCN(widths, "prelu", "none", rng) for _ in range(2))
        self.discriminator = Discriminator(settings.n_components, rng)

    def prepare(self, graph: Graph) -> Inputs:
        settings = self.settings
        edges = gcn_inputs(graph, to_sum_one=settings.row_sums)
        if settings.diffusion == "ppr":
            matrix = personalized_pagerank(graph, settings.alpha, settings.keep)
        else:
            matrix = heat(graph, settings.time, settings.keep)
        return Inputs(edges, GCNInputs(edges.x, SparseMatrix.from_csr(matrix, split_rows=True), matrix.values()))

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        real, corrupted = real_and_corrupted(self.encoder, inputs.edges, rng)
        diffused, diffused_corrupted = real_and_corrupted(self.diffused_encoder, inputs.diffused, rng)
        # The discriminator compares the nodes of each view with the summary of the other view.
        first = self.discriminator(real, corrupted, diffused)
        second = self.discriminator(diffused, diffused_corrupted, real)
        return (first + second) / 2

    def encode(self, inputs: Inputs) -> Tensor:
        return self.encoder(inputs.edges) + self.diffused_encoder(inputs.diffused)
