"""GMI: maximize the mutual information of a node's vector with its features, its neighbors' features and its edges
(Peng et al., Graph Representation Learning via Graphical Mutual Information Maximization, WWW 2020).

Complexity per step, for edges e: O(n·(f + d)·d) for the layers, O(e·d) for the messages and O(n_negatives·n·d) for the
negatives. Memory: O(n·(f + n_negatives·d)).

The authors compare edges with all n² pairs of nodes; one such matrix has 1.3 GB on CS and 4.8 GB on Physics. Here each
step draws as many random pairs as edges, which has the same expectation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.augmentations import random_permutation
from afgrl.nn import GCN, GCNInputs, gcn_inputs, padded_matmul, weight_matrix
from afgrl.ops.embedding import embedding_rows
from afgrl.ops.sparse import spmm

MAX_EDGES = 1 << 16  # edges per step, and as many random pairs


class GMISettings(EpochSettings):
    """The defaults are the authors'."""

    epochs: int = Field(550, ge=0, description="passes over the graph")
    weight_decay: float = Field(0.0, ge=0, description="L2 regularization of Adam, applied to every parameter")
    patience: int = Field(20, ge=0, description="stop after this many epochs without a lower loss; 0: never")
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")
    row_sums: bool = Field(True, description="scale the features of each node to the sum 1")
    own_weight: float = Field(0.8, ge=0, description="weight of a node's own features in the loss (α)")
    around_weight: float = Field(1.0, ge=0, description="weight of its neighbors' mean features in the loss (β)")
    edge_weight: float = Field(1.0, ge=0, description="weight of its edges in the loss (γ)")
    n_negatives: int = Field(5, ge=1, description="random nodes that each node is compared with")


@dataclass(frozen=True, eq=False)
class Inputs:
    gcn: GCNInputs
    neighbor_mean: Tensor  # [e] values of the adjacency that average over a node's neighbors
    edges: Tensor  # [2, e] int64


class GMIMethod(Method):
    name = "gmi"
    capturable = True
    settings_class = GMISettings
    settings: GMISettings
    decoupled_decay = False

    def __init__(self, settings: GMISettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        d = settings.n_components
        self.encoder = GCN([size.n_features, d, d], "prelu", "none", rng)
        # The bilinear form h Θ x equals h · (x Θᵀ), which compares rows of width d instead of f.
        self.own = weight_matrix(size.n_features, d, rng)
        self.around = weight_matrix(d, d, rng)
        self.biases = nn.Parameter(torch.zeros(2))

    def prepare(self, graph: Graph) -> Inputs:
        gcn = gcn_inputs(graph, to_sum_one=self.settings.row_sums)
        real = ~gcn.adjacency.on_diagonal
        if gcn.adjacency.values is None:
            degree = gcn.adjacency.indptr.diff() - 1
            neighbor_mean = real / degree.clamp(min=1)[gcn.adjacency.rows]
        else:
            weight = gcn.adjacency.values * real
            total = spmm(gcn.adjacency, weight.new_ones(graph.n, 1), weight).squeeze(1)
            neighbor_mean = weight / torch.where(total > 0, total, 1.0)[gcn.adjacency.rows]
        return Inputs(gcn, neighbor_mean, graph.edge_index)

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        settings, gcn = self.settings, inputs.gcn
        projected = padded_matmul(gcn.x, self.encoder.weights[0])
        first = self.encoder.activate(0, spmm(gcn.adjacency, projected, gcn.values))
        h = self.encoder.activate(1, spmm(gcn.adjacency, first @ self.encoder.weights[1], gcn.values))
        own = padded_matmul(gcn.x, self.own)
        around = spmm(gcn.adjacency, projected, inputs.neighbor_mean) @ self.around
        others = [random_permutation(h.shape[0], rng) for _ in range(settings.n_negatives)]
        return (
            settings.own_weight * _agreement(h, own, others, self.biases[0])
            + settings.around_weight * _agreement(h, around, others, self.biases[1])
            + settings.edge_weight * _edge_loss(h, inputs.edges, rng)
        )

    def encode(self, inputs: Inputs) -> Tensor:
        return self.encoder(inputs.gcn)


def _agreement(h: Tensor, features: Tensor, others: list[Tensor], bias: Tensor) -> Tensor:
    """The Jensen-Shannon bound of mutual information: each node with its own features, and with those of ``others``."""
    real = F.softplus(-((h * features).sum(1) + bias)).mean()
    random = [F.softplus((h * features[other]).sum(1) + bias).mean() for other in others]
    return real + torch.stack(random).mean()


def _edge_loss(h: Tensor, edges: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of distinguishing edges from random pairs by σ(h_i · h_j); both have the same weight."""
    n, e = h.shape[0], edges.shape[1]
    if e == 0:
        return h.new_zeros(())
    count = min(MAX_EDGES, e)
    source, target = edges[:, torch.randint(e, (count,), device=h.device, generator=rng)]
    first, second = torch.randint(n, (2, count), device=h.device, generator=rng)
    # Nodes occur several times: the gradient of ``h[source]`` would add them up in another order in every call.
    rows = [embedding_rows(h, nodes) for nodes in (source, target, first, second)]
    edge = F.softplus(-(rows[0] * rows[1]).sum(1)).mean()
    random = F.softplus((rows[2] * rows[3]).sum(1)).mean()
    return edge + random
