"""GraphMAE2: reconstruct the features of masked nodes, and predict the vectors that a target encoder gives all nodes
(Hou et al., GraphMAE2: A Decoding-Enhanced Masked Self-Supervised Graph Learner, WWW 2023).

A graph attention network (GAT) encodes the graph with some nodes masked. Their vectors are masked again, and one more
layer of attention decodes the features. The loss is the mean of (1 - cosine)^γ between features and reconstruction over
the masked nodes, plus λ times that of 1 - cosine between predicted and target vectors over all nodes.

Complexity per step, for edges e: O(nnz·d + n·d²) for the layers, O(e·d) for attention and O(f·d²) for the decoder.
Memory: O(n·(f + d) + e·heads); reconstructed features are never formed.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.augmentations import random_permutation
from afgrl.nn import MLP, Progress, dropout, ema_update, linear_parameters, padded_matmul, weight_matrix
from afgrl.nn.gat import GAT, Attention
from afgrl.ops.propagation import feature_rows, layer_input
from afgrl.ops.propagation.adjacency import gcn_adjacency
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.edges import learned_spmm
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.sparse.rows import row_lengths, unit_sums

PROJECTION_WIDTH = 256  # hidden width of the projection head, in the authors' code
SMALLEST = 1e-12  # squared length of a reconstruction


class GraphMAE2Settings(EpochSettings):
    """The defaults are one setting for all graphs: the median of each of the authors' settings over Cora, CiteSeer and
    PubMed, except for the width and the number of epochs, where they are the smallest, since attention takes long, and
    for the features, which are not scaled: on Cora the loss then falls several times faster."""

    epochs: int = Field(500, ge=0, description="passes over the graph")
    learning_rate: float = Field(1e-3, gt=0, description="first learning rate of Adam; it decays with a cosine")
    weight_decay: float = Field(1e-4, ge=0, description="L2 regularization of Adam, applied to every parameter")
    n_components: int = Field(512, ge=1, description="width of both layers and of the embedding (D)")
    n_heads: int = Field(
        4, ge=1, description="heads of attention; if n_components is not a multiple of it, the next smaller divisor"
    )
    mask: float = Field(0.5, gt=0, lt=1, description="share of the nodes whose features are masked in a step")
    n_remasks: int = Field(
        0,
        ge=0,
        description="random masks of the vectors before decoding, whose losses are added; 0: the masked nodes only",
    )
    remask: float = Field(0.5, ge=0, lt=1, description="share of the nodes in each of those masks")
    exponent: float = Field(3.0, ge=1, description="exponent of the error of a reconstruction (γ)")
    latent_weight: float = Field(0.15, ge=0, description="weight of the predicted vectors in the loss (λ)")
    momentum: float = Field(0.995, ge=0, le=1, description="EMA decay of the target encoder (τ)")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout probability of the input of each layer")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="dropout probability of attention")
    row_sums: bool = Field(False, description="scale the features of each node to the sum 1")


@dataclass(frozen=True, eq=False)
class Inputs:
    x: Tensor | FactoredTable  # [n, f] X
    length: Tensor  # [n] of its rows
    table: RowTable  # [n, f] X, for dropout
    adjacency: SparseMatrix  # [n, n] A + I


class GraphMAE2Method(Method):
    name = "graphmae2"
    capturable = True
    settings_class = GraphMAE2Settings
    settings: GraphMAE2Settings
    decoupled_decay = False

    def __init__(self, settings: GraphMAE2Settings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        d, f = settings.n_components, size.n_features
        n_heads = next(count for count in range(settings.n_heads, 0, -1) if d % count == 0)
        self.encoder = GAT([f, d, d], n_heads, rng)
        self.projection = MLP(d, PROJECTION_WIDTH, d, nn.PReLU(), rng)
        self.prediction_slope = nn.PReLU()
        self.prediction_weight, self.prediction_bias = linear_parameters(d, d, rng)
        self.decoder = Decoder(d, f, rng)
        self.token = nn.Parameter(torch.zeros(f))  # a random one can be many times as long as the features of a node
        self.target = copy.deepcopy(nn.ModuleList([self.encoder, self.projection])).requires_grad_(False)

    def prepare(self, graph: Graph) -> Inputs:
        to_sum_one = self.settings.row_sums
        x = unit_sums(graph.x) if to_sum_one else graph.x
        length = row_lengths(x) if x.layout == torch.sparse_csr else x.norm(dim=1).clamp(min=SMALLEST)
        rows = feature_rows(graph, to_sum_one=to_sum_one)
        return Inputs(layer_input(graph, to_sum_one=to_sum_one), length, rows, gcn_adjacency(graph))

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        settings, n = self.settings, inputs.table.shape[0]
        masked = random_mask(n, settings.mask, rng)
        h = self._encoded(self.encoder, inputs, rng, masked, dropout(self.token, settings.dropout, rng))
        with torch.no_grad():
            encoder, projection = self.target
            t = projection(self._encoded(encoder, inputs, rng))
        z = self.prediction_slope(self.projection(h))
        z = torch.addmm(self.prediction_bias, z, self.prediction_weight)
        latent = 1 - F.cosine_similarity(z, t).mean()
        error = h.new_zeros(())
        for _ in range(max(1, settings.n_remasks)):
            again = random_mask(n, settings.remask, rng) if settings.n_remasks else masked
            y = self.decoder.attend(inputs.adjacency, h, again, bool(settings.n_remasks), settings, rng)
            cosine = self.decoder.agreement(inputs.x, y) / inputs.length
            error = error + (masked * (1 - cosine).clamp(min=0) ** settings.exponent).sum() / masked.sum()
        return error + settings.latent_weight * latent

    def _encoded(
        self, encoder: nn.Module, inputs: Inputs, rng: torch.Generator, masked: Tensor | None = None,
        token: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The vectors of all nodes, with dropout: [n, d]."""
        x = inputs.table.rows(slice(None), self.settings.dropout, rng)
        rates = (self.settings.dropout, self.settings.attention_dropout)
        h: Tensor = encoder(inputs.adjacency, x, masked, token, rates=rates, rng=rng)
        return h

    def learning_rate(self, progress: Progress) -> float:
        return self.settings.learning_rate * (1 + math.cos(math.pi * progress.fraction)) / 2

    def after_step(self, progress: Progress) -> None:
        ema_update(self.target, nn.ModuleList([self.encoder, self.projection]), self.settings.momentum)

    def encode(self, inputs: Inputs) -> Tensor:
        h: Tensor = self.encoder(inputs.adjacency, inputs.x)
        return h


class Decoder(nn.Module):
    """One layer of attention with one head, from vectors to features: Y Vᵀ + b, where Y [n, d] are averaged vectors.

    Only cosines with the features X are needed. With W = [V | b] and y = [Y | 1], the products are those of X W and y,
    and the squared lengths y WᵀW yᵀ, so that the reconstruction, a dense table [n, f], is never formed.
    """

    def __init__(self, width: int, n_features: int, rng: torch.Generator) -> None:
        super().__init__()
        self.bridge = weight_matrix(width, width, rng)
        self.token = nn.Parameter(torch.zeros(width))
        self.attention = Attention(1, width, rng)
        self.weight = weight_matrix(n_features, width, rng)  # V
        self.bias = nn.Parameter(torch.zeros(n_features))

    def attend(
        self, adjacency: SparseMatrix, h: Tensor, masked: Tensor, with_token: bool, settings: GraphMAE2Settings,
        rng: torch.Generator,
    ) -> Tensor:  # fmt: skip
        """Y: the averages of vectors that are 0, or the token, where ``masked`` [n] is 1: [n, d]."""
        h = (1 - masked)[:, None] * (h @ self.bridge)
        if with_token:
            h = h + torch.outer(masked, self.token)
        h = dropout(h, settings.dropout, rng)
        weights = self.attention(adjacency, h, 0, settings.attention_dropout, rng)
        return learned_spmm(adjacency, weights, h)

    def agreement(self, x: Tensor | FactoredTable, y: Tensor) -> Tensor:
        """The product of each row of ``x`` with its reconstruction, scaled to unit length: [n]."""
        both = torch.cat([self.weight, self.bias[:, None]], dim=1)  # [f, d + 1]
        y = torch.cat([y, y.new_ones(len(y), 1)], dim=1)
        product: Tensor = (padded_matmul(x, both) * y).sum(1)
        length = ((y @ (both.T @ both)) * y).sum(1).clamp(min=SMALLEST).sqrt()
        return product / length


def random_mask(n: int, share: float, rng: torch.Generator) -> Tensor:
    """[n] with 1 for that share of the nodes, at least one, and 0 for the others."""
    count = max(1, int(share * n))
    return torch.zeros(n, device=rng.device).index_fill(0, random_permutation(n, rng)[:count], 1.0)
