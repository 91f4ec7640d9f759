"""MVGRL: tell real nodes from shuffled ones across two views of a graph, its edges and their diffusion
(Hassani and Khasahmadi, Contrastive Multi-View Representation Learning on Graphs, ICML 2020).

Costs once: the diffusion, about e·n times the terms of its series, and n·keep entries of it; a step: two products
n·f·d, messages of 2·(e + n·keep)·d; memory n·(f + 8·d + keep).

The authors sample 2,000 nodes, since they keep the diffusion dense; ours is sparse, so that all nodes take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from afgrl.diffusion import heat, personalized_pagerank
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.dgi import DGIConfig, Discriminator, real_and_corrupted
from afgrl.nn import GCN, GCNInputs, gcn_inputs
from afgrl.ops import links_of


class MVGRLConfig(DGIConfig):
    diffusion: Literal["ppr", "heat"] = Field("ppr", description="personalized PageRank, or heat")
    alpha: float = Field(0.2, gt=0, le=1, description="how often PageRank's walk returns home")
    time: float = Field(5.0, gt=0, description="for which heat flows")
    keep: int = Field(64, ge=1, description="entries of the diffusion that each node keeps, the largest")


@dataclass(frozen=True, eq=False)
class Inputs:
    edges: GCNInputs
    diffused: GCNInputs


class MVGRLMethod(Method):
    """Two encoders, one for each view; a node's vector is the sum of both."""

    name = "mvgrl"
    Config = MVGRLConfig
    config: MVGRLConfig
    decoupled_decay = False

    def __init__(self, config: MVGRLConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        widths = [size.n_features, config.n_components]
        self.encoder, self.diffused_encoder = (GCN(widths, "prelu", "none", rng) for _ in range(2))
        self.discriminator = Discriminator(config.n_components, rng)

    def prepare(self, graph: Graph) -> Inputs:
        config = self.config
        edges = gcn_inputs(graph, to_sum_one=config.row_sums)
        if config.diffusion == "ppr":
            matrix = personalized_pagerank(graph, config.alpha, config.keep)
        else:
            matrix = heat(graph, config.time, config.keep)
        return Inputs(edges, GCNInputs(edges.x, links_of(matrix), matrix.values()))

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        real, corrupted = real_and_corrupted(self.encoder, inputs.edges, rng)
        other, other_corrupted = real_and_corrupted(self.diffused_encoder, inputs.diffused, rng)
        # Each view's nodes are judged by the other view's summary.
        return (self.discriminator(real, corrupted, other) + self.discriminator(other, other_corrupted, real)) / 2

    @torch.no_grad()
    def represent(self, inputs: Inputs) -> Tensor:
        return self.encoder(inputs.edges) + self.diffused_encoder(inputs.diffused)
