"""SIGNA: tell a node's neighbors from all other nodes by its features alone; some neighbors count as others
(Single-View Graph Contrastive Learning with Soft Neighborhood Awareness, AAAI 2025).

The encoder is an MLP on the features of a node. With D = (1 + cosine) / 2, the loss of a node is
-mean log D over its kept neighbors and itself - mean log (1 - D) over all other nodes, the masked neighbors among them.

In batches, the default, the other nodes are those of the batch, and one neighbor represents all: it is drawn at
random and weighted so that the expectation over the masks is the loss of full batches.

Complexity per step, for b rows of nnz values, hidden_width w and projection_width p: O(b·(nnz·w + w·d + d·p)) and
O(b²·d) for the pairs. b = n in full batches, plus O(e·d) for the edges. Memory: O(n·f + b·(w + d) + b²) in batches,
O(n·(f + w + d)) in full batches, where pairs are computed in blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from pydantic import Field, NonNegativeInt, TypeAdapter, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import BatchSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.augmentations import keep_mask
from afgrl.nn import MLP, dropout, linear_parameters, padded_matmul
from afgrl.ops.pair_sums import LogDistance, pair_sum
from afgrl.ops.propagation import feature_rows
from afgrl.ops.propagation.adjacency import gcn_adjacency
from afgrl.ops.sparse import spmm
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.edges import edge_products
from afgrl.ops.sparse.matrix import SparseMatrix

FLOOR = 1e-6  # in both logarithms, as in the authors' code
NEGATIVE = LogDistance(FLOOR)
BATCH_SIZE, STEPS = 1024, 600


class SIGNASettings(BatchSettings):
    """The defaults are one setting for all graphs: the authors' values for Physics, which are in the middle of the
    ranges over their graphs, with the projection of their other graphs, in batches."""

    steps: int = Field(ge=0, description=f"steps in batches; by default {STEPS}; 0 in full batches")
    batch_size: int = Field(
        ge=0, description="rows per step; 0: all rows (full batch); by default 1,024, or 0 if epochs is set"
    )
    learning_rate: float = Field(5e-4, gt=0, description="learning rate of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of AdamW")
    n_components: int = Field(1024, ge=1, description="width of the embedding (D)")
    hidden_width: int = Field(2048, ge=1, description="width of the encoder's first layer")
    projection_width: int = Field(256, ge=1, description="hidden width of the projection head")
    mask: float = Field(
        0.8, ge=0, lt=1, description="probability that a neighbor counts as one of the other nodes in a step"
    )
    dropout: float = Field(0.55, ge=0, lt=1, description="dropout probability before each layer of the encoder")
    row_sums: bool = Field(True, description="scale the features of each node to the sum 1")

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        size = given.get("batch_size", 0 if "epochs" in given else BATCH_SIZE)
        in_batches = TypeAdapter(NonNegativeInt).validate_python(size) > 0
        return {"batch_size": size, "steps": STEPS if in_batches else 0, "epochs": 0 if in_batches else STEPS}

    @model_validator(mode="after")
    def _steps_need_batches(self) -> Self:
        if not self.in_batches and self.steps:
            raise ValueError("steps need batches; set batch_size, or epochs")
        return self


@dataclass(frozen=True, eq=False)
class Inputs:
    table: RowTable  # [n, f] X
    adjacency: SparseMatrix  # [n, n] A + I
    weight: Tensor  # [e] of its entries, relative to the mean edge; 1 for self-loops
    degree: Tensor  # [n] number of neighbors
    reach: Tensor  # [e + 1] float64: sum of the edge weights before each entry; self-loops count 0


class SIGNAMethod(Method):
    name = "signa"
    supports_batches = True
    capturable = True
    settings_class = SIGNASettings
    settings: SIGNASettings

    def __init__(self, settings: SIGNASettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        widths = (size.n_features, settings.hidden_width, settings.n_components)
        self.encoder = RowEncoder(widths, rng)
        d = settings.n_components
        self.projection = MLP(d, settings.projection_width, d, nn.ELU(), rng)

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        return frozenset({"features"})  # edges only choose what is pulled together in training

    def prepare(self, graph: Graph) -> Inputs:
        adjacency = gcn_adjacency(graph)
        weight = adjacency.explicit_values
        of_edges = torch.where(adjacency.on_diagonal, 0.0, weight.double())
        reach = torch.cat([of_edges.new_zeros(1), of_edges.cumsum(0)])
        degree = (adjacency.indptr.diff() - 1).to(torch.float32)
        return Inputs(feature_rows(graph, to_sum_one=self.settings.row_sums), adjacency, weight, degree, reach)

    def loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        size = self.settings.batch_size
        return self._batch_loss(inputs, rng) if 0 < size < inputs.table.shape[0] else self._full_loss(inputs, rng)

    def _projected(self, inputs: Inputs, rows: Tensor | slice, rng: torch.Generator) -> Tensor:
        """The projections of some rows, with dropout and unit length: [rows, d]."""
        x = inputs.table.rows(rows, self.settings.dropout, rng)
        return F.normalize(self.projection(self.encoder(x, self.settings.dropout, rng)))

    def _full_loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        adjacency, n = inputs.adjacency, inputs.table.shape[0]
        loop = adjacency.on_diagonal
        z = self._projected(inputs, slice(None), rng)
        kept = keep_mask(self.settings.mask * (~loop).to(torch.float32), rng)  # [e]; a node keeps itself
        cosine = edge_products(adjacency, z, z)
        share = kept * inputs.weight / _row_sums(adjacency, kept * inputs.weight)[adjacency.rows]
        positive = -(share * _log_closeness(cosine)).sum() / n
        # All pairs of two nodes, less those of kept neighbors.
        weight = 1 / (n * (n - _row_sums(adjacency, kept)).clamp(min=1))
        neighbors = (kept * ~loop * weight[adjacency.rows] * NEGATIVE.value(cosine)).sum()
        return positive + pair_sum(z, z, weight, NEGATIVE) - neighbors

    def _batch_loss(self, inputs: Inputs, rng: torch.Generator) -> Tensor:
        n, size = inputs.table.shape[0], self.settings.batch_size
        rows = torch.randint(n, (size,), generator=rng, device=rng.device)
        z, z_neighbor = self._projected(inputs, torch.cat([rows, random_neighbors(inputs, rows, rng)]), rng).chunk(2)
        cosine, degree = (z * z_neighbor).sum(1), inputs.degree[rows]
        positive = -(neighbor_share(degree, self.settings.mask) * _log_closeness(cosine)).mean()
        different = rows[:, None] != rows  # a node can be in a batch twice
        penalty = NEGATIVE.value((z @ z.T).masked_fill(~different, 0)).masked_fill(~different, 0)
        mean_of_others = penalty.sum(1) / different.sum(1).clamp(min=1)
        kept = (1 - self.settings.mask) * degree  # expected number
        others = ((n - 1) * mean_of_others - kept * NEGATIVE.value(cosine)) / (n - 1 - kept).clamp(min=1)
        return positive + others.mean()

    def encode(self, inputs: Inputs) -> Tensor:
        table, settings = inputs.table, self.settings
        output = torch.empty(table.shape[0], settings.n_components, device=table.device)
        for rows in table.chunks(settings.hidden_width + settings.n_components):
            output[rows] = self.encoder(table.rows(rows))
        return output

    @torch.no_grad()
    def sample(self, inputs: Inputs, rows: Tensor) -> Tensor:
        h: Tensor = self.encoder(inputs.table.rows(rows))
        return h


class RowEncoder(nn.Module):
    """Layers of dropout, linear, PReLU and layer normalization; all layers share one slope of PReLU."""

    def __init__(self, widths: tuple[int, ...], rng: torch.Generator) -> None:
        super().__init__()
        pairs = [linear_parameters(n_in, n_out, rng) for n_in, n_out in itertools.pairwise(widths)]
        self.weights = nn.ParameterList(weight for weight, _ in pairs)
        self.biases = nn.ParameterList(bias for _, bias in pairs)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:])
        self.activation = nn.PReLU()

    def forward(self, x: Tensor | FactoredTable, rate: float = 0.0, rng: torch.Generator | None = None) -> Tensor:
        """``rate`` is the dropout probability before each layer except the first: that of ``x`` is applied already."""
        h = self.norms[0](self.activation(padded_matmul(x, self.weights[0]) + self.biases[0]))
        for weight, bias, norm in list(zip(self.weights, self.biases, self.norms, strict=True))[1:]:
            h = dropout(h, rate, rng) if rng is not None else h
            h = norm(self.activation(torch.addmm(bias, h, weight)))
        output: Tensor = h
        return output


def random_neighbors(inputs: Inputs, rows: Tensor, rng: torch.Generator) -> Tensor:
    """A neighbor of each node in ``rows``, by the weights of its edges; the node itself if it has none."""
    adjacency, reach = inputs.adjacency, inputs.reach
    first, last = adjacency.indptr[rows], adjacency.indptr[rows + 1]
    drawn = torch.rand(rows.shape, generator=rng, device=rows.device, dtype=torch.float64)
    entry = torch.searchsorted(reach[1:], torch.lerp(reach[first], reach[last], drawn), right=True)
    neighbor = adjacency.indices[entry.clamp(min=first, max=last - 1)]  # rounding may lead to the next row
    return torch.where(inputs.degree[rows] > 0, neighbor, rows)


def neighbor_share(degree: Tensor, mask: float) -> Tensor:
    """The expected share k / (k + 1) of k kept neighbors among those and the node itself, for each degree.

    k has a binomial distribution, for which 1 / (k + 1) is (1 - mask^(degree + 1)) / ((degree + 1) (1 - mask)) in
    expectation.
    """
    return 1 - (1 - mask ** (degree + 1)) / ((degree + 1) * (1 - mask))


def _log_closeness(cosine: Tensor) -> Tensor:
    return ((1 + cosine).clamp(min=0) / 2 + FLOOR).log()


def _row_sums(adjacency: SparseMatrix, values: Tensor) -> Tensor:
    return spmm(adjacency, values.new_ones(adjacency.shape[1], 1), values).squeeze(1)
