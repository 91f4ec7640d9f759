"""GMI: a node's vector tells its own features, those around it, and its edges from random ones
(Peng et al., Graph Representation Learning via Graphical Mutual Information Maximization, WWW 2020).

Costs a step: products n·f·d twice and n·d² three times, messages of 3·e·d, negatives·n·d; memory
n·(f + (7 + negatives)·d).

The authors score edges against all n² pairs, 1.3 GB for each such matrix on CS and 4.8 on Physics; ours draws as many
pairs as edges at a time, which has the same expectation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import GCN, GCNInputs, gcn_inputs, product, shuffled, weight_matrix
from afgrl.ops import gather

PAIRS = 1 << 16  # edges, and pairs beside them, that a step looks at


class GMIConfig(Settings):
    """The defaults are the authors'."""

    epochs: int | None = Field(550, ge=0, description="passes over the graph")
    weight_decay: float = Field(0.0, ge=0, description="Adam's pull of every parameter towards zero")
    patience: int = Field(20, ge=0, description="stop when the loss has not fallen for so many epochs; 0: never")
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")
    row_sums: bool = Field(True, description="scale each node's features to the sum 1")
    own_weight: float = Field(0.8, ge=0, description="of a node's own features in the loss (α)")
    around_weight: float = Field(1.0, ge=0, description="of the features around it (β)")
    edge_weight: float = Field(1.0, ge=0, description="of its edges (γ)")
    n_negatives: int = Field(5, ge=1, description="other nodes that each is compared with")


@dataclass(frozen=True, eq=False)
class Inputs:
    gcn: GCNInputs
    around: Tensor  # [e] weights of the mean over a node's neighbors
    edges: Tensor  # [2, e] int64


class GMIMethod(Method):
    name = "gmi"
    Config = GMIConfig
    config: GMIConfig
    decoupled_decay = False

    def __init__(self, config: GMIConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        d = config.n_components
        self.encoder = GCN([size.n_features, d, d], "prelu", "none", rng)
        # A bilinear form h Θ x is h · (x Θᵀ): rows of width d are compared, not of width f.
        self.own = weight_matrix(size.n_features, d, rng)
        self.around = weight_matrix(d, d, rng)
        self.biases = nn.Parameter(torch.zeros(2))

    def prepare(self, graph: Graph) -> Inputs:
        gcn = gcn_inputs(graph, to_sum_one=self.config.row_sums)
        real = ~gcn.links.is_loop
        if gcn.links.weight is None:
            degree = gcn.links.start.diff() - 1
            around = real / degree.clamp(min=1)[gcn.links.target]
        else:
            weight = gcn.links.weight * real
            total = gather(gcn.links, weight, weight.new_ones(graph.n, 1)).squeeze(1)
            around = weight / torch.where(total > 0, total, 1.0)[gcn.links.target]
        return Inputs(gcn, around, graph.edge_index)

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        config, gcn = self.config, inputs.gcn
        projected = product(gcn.x, self.encoder.weights[0])
        first = self.encoder.activate(0, gather(gcn.links, gcn.weight, projected))
        h = self.encoder.activate(1, gather(gcn.links, gcn.weight, first @ self.encoder.weights[1]))
        own = product(gcn.x, self.own)
        around = gather(gcn.links, inputs.around, projected) @ self.around
        others = [shuffled(h.shape[0], rng) for _ in range(config.n_negatives)]
        return (
            config.own_weight * _agreement(h, own, others, self.biases[0])
            + config.around_weight * _agreement(h, around, others, self.biases[1])
            + config.edge_weight * _edge_loss(h, inputs.edges, rng)
        )

    @torch.no_grad()
    def represent(self, inputs: Inputs) -> Tensor:
        return self.encoder(inputs.gcn)


def _agreement(h: Tensor, features: Tensor, others: list[Tensor], bias: Tensor) -> Tensor:
    """The Jensen-Shannon bound: each node with its own features, and with those of others."""
    real = F.softplus(-((h * features).sum(1) + bias)).mean()
    false = [F.softplus((h * features[other]).sum(1) + bias).mean() for other in others]
    return real + torch.stack(false).mean()


def _edge_loss(h: Tensor, edges: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of telling edges from pairs of nodes by σ(h_i · h_j), both kinds with the same weight."""
    n, e = h.shape[0], edges.shape[1]
    if e == 0:
        return h.new_zeros(())
    count = min(PAIRS, e)
    source, target = edges[:, torch.randint(e, (count,), device=h.device, generator=rng)]
    some, others = torch.randint(n, (2, count), device=h.device, generator=rng)
    joined = F.softplus(-(h[source] * h[target]).sum(1)).mean()
    apart = F.softplus((h[some] * h[others]).sum(1)).mean()
    return joined + apart
