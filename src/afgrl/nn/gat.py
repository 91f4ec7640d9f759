"""The graph attention network (Veličković et al., ICLR 2018), whose weights of neighbors are learned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.nn.layers import dropout, padded_matmul
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.edges import edge_products, learned_spmm, row_softmax
from afgrl.ops.sparse.matrix import SparseMatrix

NEGATIVE_SLOPE = 0.2  # of the leaky ReLU of attention, in the paper and in every library
GAIN = 2**0.5  # of the initial weights, for a ReLU after them


class Attention(nn.Module):
    """The weights of the neighbors of a node, with one row of learned numbers per head for each end of an edge."""

    def __init__(self, n_heads: int, width: int, rng: torch.Generator) -> None:
        super().__init__()
        self.sender, self.receiver = (_xavier_normal(n_heads, width, rng) for _ in range(2))

    def forward(
        self, adjacency: SparseMatrix, h: Tensor, head: int, rate: float, rng: torch.Generator | None
    ) -> Tensor:
        """One weight per entry of the adjacency from the vectors ``h`` [n, width] of one head, with dropout: [e].

        An edge weight multiplies the attention before it is scaled to the sum 1.
        """
        receiver, sender = h @ self.receiver[head], h @ self.sender[head]
        ones = torch.ones_like(sender)
        # A sum over the two ends of each edge, as a product of two columns: its gradient is then summed in fixed order.
        both_ends = edge_products(adjacency, torch.stack([receiver, ones], 1), torch.stack([ones, sender], 1))
        logits = F.leaky_relu(both_ends, NEGATIVE_SLOPE)
        if adjacency.values is not None:
            logits = logits + adjacency.values.clamp(min=torch.finfo(torch.float32).tiny).log()
        weights = row_softmax(adjacency, logits)
        return weights if rng is None else dropout(weights, rate, rng)


class GAT(nn.Module):
    """Layers of attention with several heads, whose outputs are concatenated, and PReLU."""

    def __init__(self, widths: Sequence[int], n_heads: int, rng: torch.Generator) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(_xavier_normal(n_in, n_out, rng) for n_in, n_out in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n_out)) for _, n_out in pairs)
        self.attention = nn.ModuleList(Attention(n_heads, n_out // n_heads, rng) for _, n_out in pairs)
        self.activations = nn.ModuleList(nn.PReLU() for _ in pairs)
        self.n_heads = n_heads

    def forward(
        self,
        adjacency: SparseMatrix,
        x: Tensor | FactoredTable,
        masked: Tensor | None = None,
        token: Tensor | None = None,
        *,
        rates: tuple[float, float] = (0.0, 0.0),
        rng: torch.Generator | None = None,
    ) -> Tensor:
        """``token`` [f] replaces the features of the nodes where ``masked`` [n] is 1. ``rates`` are the dropout
        probabilities of the input of every layer except the first and of attention; without ``rng`` there is none."""
        product = padded_matmul(x, self.weights[0])
        if masked is not None and token is not None:
            product = (1 - masked)[:, None] * product + torch.outer(masked, token @ self.weights[0])
        h = self._attend(0, adjacency, product, rates[1], rng)
        for depth in range(1, len(self.weights)):
            h = h if rng is None else dropout(h, rates[0], rng)
            h = self._attend(depth, adjacency, h @ self.weights[depth], rates[1], rng)
        return h

    def _attend(
        self, depth: int, adjacency: SparseMatrix, product: Tensor, rate: float, rng: torch.Generator | None
    ) -> Tensor:
        outputs = []
        for head, part in enumerate(product.chunk(self.n_heads, dim=1)):
            h = part.contiguous()
            weights = self.attention[depth](adjacency, h, head, rate, rng)
            outputs.append(learned_spmm(adjacency, weights, h))
        activated: Tensor = self.activations[depth](torch.cat(outputs, dim=1) + self.biases[depth])
        return activated


def _xavier_normal(n_in: int, n_out: int, rng: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(n_in, n_out), gain=GAIN, generator=rng))
