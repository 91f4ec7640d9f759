"""Smoothing of features over the graph, computed once.

With one GCN layer and no augmentation ``S(XW) = (SX)W``: ``SX`` is a constant of the data, so training
needs no message passing, and the vector of a node depends on one row of ``SX`` only.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph, csr, csr_from_scipy, csr_to_scipy

# Above this share of non-zeros the input is made dense, on CPUs as well: on CS (6.7 % non-zeros, a busy two-core
# machine) the CSR product took 2.6 times as long as the dense one. The border is scaled down from that one point.
DENSE_FROM = 0.02
# Length given to the rows of each block of a multi-hop input. At length 1 the encoder's Xavier weights
# would move the embedding too little per step for the usual learning rates.
HOP_LENGTH = 10.0


@dataclass(frozen=True, eq=False)
class Propagated:
    """What the encoder reads: the first layer's input, already smoothed, and S for the layers after it."""

    x: Tensor  # [n, f] dense or CSR: SX, or [X | SX | … | SʰX] with rows of each block at one length
    adjacency: Tensor  # [n, n] CSR: S = D^-1/2 (A + I) D^-1/2


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
    return Propagated(_compact(_join([HOP_LENGTH * unit_rows(block) for block in blocks])), adjacency)


def _smooth(adjacency: Tensor, x: Tensor) -> Tensor:
    if x.layout != torch.sparse_csr:
        return adjacency @ x
    # scipy multiplies two sparse matrices on any build; PyTorch needs MKL for it.
    return csr_from_scipy(csr_to_scipy(adjacency) @ csr_to_scipy(x)).to(x.device)


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to Euclidean length 1, dense or CSR; rows of zeros stay."""
    if x.layout != torch.sparse_csr:
        return F.normalize(x)
    row = torch.repeat_interleave(x.crow_indices().diff())
    square = x.values().new_zeros(x.shape[0]).index_add_(0, row, x.values().square())
    length = square.sqrt().clamp(min=1e-12)  # a stored zero must not become 0 / 0
    return csr(x.crow_indices(), x.col_indices(), x.values() / length[row], (x.shape[0], x.shape[1]))


def _join(blocks: list[Tensor]) -> Tensor:
    if blocks[0].layout != torch.sparse_csr:
        return torch.cat(blocks, dim=1)
    return csr_from_scipy(sp.hstack([csr_to_scipy(block) for block in blocks])).to(blocks[0].device)


def _compact(x: Tensor) -> Tensor:
    """The layout in which the product with the weights is fastest: always dense on a GPU."""
    if x.layout != torch.sparse_csr:
        return x
    density = x.values().numel() / (x.shape[0] * x.shape[1])
    return x.to_dense() if x.is_cuda or density > DENSE_FROM else x
