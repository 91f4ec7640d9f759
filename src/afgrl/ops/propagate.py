"""Smoothing of features over the graph, computed once.

With one GCN layer and no augmentation ``S(XW) = (SX)W``: ``SX`` is a constant of the data, so training
needs no message passing, and the vector of a node depends on one row of ``SX`` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph, csr, csr_from_scipy, csr_to_scipy

# Above this share of non-zeros a dense product is faster on two CPU cores (benchmarks/sparse.py).
DENSE_FROM = 0.10
# Length given to the rows of each block of a multi-hop input. At length 1 the encoder's Xavier weights
# would move the embedding too little per step for the usual learning rates.
HOP_LENGTH = 10.0


@dataclass(frozen=True, eq=False)
class Propagated:
    """What the encoder reads: the first layer's input, already smoothed, and S for the layers after it."""

    x: Tensor  # [n, f] dense or CSR: SX, or [X | SX | … | SʰX] with rows of each block at one length
    adjacency: Tensor  # [n, n] CSR: S = D^-1/2 (A + I) D^-1/2

    @cached_property
    def transposed(self) -> Tensor:
        """xᵀ in CSR, which the gradient of a sparse ``x @ weight`` needs every step."""
        return csr_from_scipy(csr_to_scipy(self.x).T)


def smoothing(graph: Graph) -> Tensor:
    """S = D^-1/2 (A + I) D^-1/2 as an [n, n] CSR tensor; row i holds what node i receives."""
    n, device = graph.n, graph.edge_index.device
    source, target = graph.edge_index
    loops = torch.arange(n, device=device)
    row, column = torch.cat([target, loops]), torch.cat([source, loops])
    order = torch.argsort(row * n + column)
    row, column = row[order], column[order]
    degree = torch.bincount(row, minlength=n)
    scale = degree.to(torch.float32).rsqrt()  # the self-loop keeps every degree at least 1
    crow = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    return csr(crow, column, scale[row] * scale[column], (n, n))


def propagate(graph: Graph, n_hops: int = 0) -> Propagated:
    """The first layer's input: ``SX`` for ``n_hops=0``, else ``[X | SX | … | SʰX]``.

    The blocks of a multi-hop input have their rows scaled to one length, so that no hop dominates.
    """
    adjacency = smoothing(graph)
    blocks = [graph.x]
    for _ in range(max(n_hops, 1)):
        blocks.append(_smooth(adjacency, blocks[-1]))
    if n_hops == 0:
        return Propagated(_compact(blocks[1]), adjacency)
    return Propagated(_compact(_join([_rows_to_length(block, HOP_LENGTH) for block in blocks])), adjacency)


def linear(inputs: Propagated, weight: Tensor) -> Tensor:
    """``inputs.x @ weight`` for dense or CSR inputs, differentiable in ``weight``: [n, d]."""
    if inputs.x.layout == torch.sparse_csr:
        return _SparseLinear.apply(weight, inputs.x, inputs.transposed)
    return inputs.x @ weight


class _SparseLinear(torch.autograd.Function):
    # PyTorch's own gradient multiplies by a CSC view, which took several times longer than by this CSR copy.
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.transposed @ grads[0], None, None


def _smooth(adjacency: Tensor, x: Tensor) -> Tensor:
    if x.layout != torch.sparse_csr:
        return adjacency @ x
    # scipy multiplies two sparse matrices on any build; PyTorch needs MKL for it.
    return csr_from_scipy(csr_to_scipy(adjacency) @ csr_to_scipy(x)).to(x.device)


def _rows_to_length(x: Tensor, length: float) -> Tensor:
    """Rows scaled to one Euclidean length; rows of zeros stay."""
    if x.layout != torch.sparse_csr:
        return F.normalize(x) * length
    rows = torch.repeat_interleave(x.crow_indices().diff())
    norms = torch.zeros(x.shape[0], device=x.device).index_add_(0, rows, x.values().square()).sqrt()
    return csr(x.crow_indices(), x.col_indices(), x.values() * (length / norms[rows]), tuple(x.shape))


def _join(blocks: list[Tensor]) -> Tensor:
    if blocks[0].layout != torch.sparse_csr:
        return torch.cat(blocks, dim=1)
    import scipy.sparse as sp

    return csr_from_scipy(sp.hstack([csr_to_scipy(block) for block in blocks])).to(blocks[0].device)


def _compact(x: Tensor) -> Tensor:
    """The layout in which the product with the weights is fastest: always dense on a GPU."""
    if x.layout != torch.sparse_csr:
        return x
    density = x.values().numel() / (x.shape[0] * x.shape[1])
    return x.to_dense() if x.is_cuda or density > DENSE_FROM else x
