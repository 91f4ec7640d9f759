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

from afgrl.csr import csr, csr_from_scipy, csr_to_scipy
from afgrl.graph import Graph
from afgrl.ops.dispatch import is_fast
from afgrl.ops.sparse_product import SparseBlocks, factors, pays

# Above this share of non-zeros the input is made dense, on CPUs as well: on CS (6.7 % non-zeros, a busy two-core
# machine) the CSR product took 2.6 times as long as the dense one. The border is scaled down from that one point.
DENSE_FROM = 0.02
# Length given to the rows of each block of a multi-hop input. At length 1 the encoder's Xavier weights
# would move the embedding too little per step for the usual learning rates.
HOP_LENGTH = 10.0
# On a GPU the columns are filled up with zeros to a multiple of this: matrix units want aligned rows.
ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Propagated:
    """What the encoder reads: the first layer's input, already smoothed, and S for the layers after it."""

    x: Tensor | SparseBlocks  # [n, f] SX, or [X | SX | … | SʰX] with rows of each block at one length
    adjacency: Tensor  # [n, n] CSR: S = D^-1/2 (A + I) D^-1/2


def smoothing(graph: Graph) -> Tensor:
    """S = D^-1/2 (A + I) D^-1/2 as an [n, n] CSR tensor; row i holds what node i receives.

    Where edges have weights, those are A's values, in units of their mean: a loop counts as much as a usual edge.
    """
    n, device = graph.n, graph.edge_index.device
    source, target = graph.edge_index
    loops = torch.arange(n, device=device)
    row, column = torch.cat([target, loops]), torch.cat([source, loops])
    order = torch.argsort(row * n + column)
    row, column = row[order], column[order]
    count = torch.bincount(row, minlength=n)
    crow = torch.cat([count.new_zeros(1), count.cumsum(0)])
    relative = relative_weights(graph)
    if relative is None:
        scale = count.to(torch.float32).rsqrt()  # the self-loop keeps every degree at least 1
        return csr(crow, column, scale[row] * scale[column], (n, n))
    weight = torch.cat([relative, relative.new_ones(n)])[order]
    # On the CPU, where sums have one order: the same bits at every call.
    degree = torch.zeros(n, dtype=torch.float64).index_add_(0, row.cpu(), weight.cpu().double())
    scale = degree.rsqrt().to(device, torch.float32)
    return csr(crow, column, scale[row] * scale[column] * weight, (n, n))


def relative_weights(graph: Graph) -> Tensor | None:
    """The weights of the edges in units of their mean, [e]; None where edges have none."""
    weight = graph.edge_weight
    return None if weight is None else weight / weight.double().mean().to(torch.float32)


def propagate(graph: Graph, n_hops: int = 0) -> Propagated:
    """The first layer's input: ``SX`` for ``n_hops=0``, else ``[X | SX | … | SʰX]``.

    The blocks of a multi-hop input have their rows scaled to one length, so that no hop dominates. Sparse features on
    a CPU stay factored where that pays: what comes then can be multiplied with weights, which is all an encoder does.
    """
    adjacency = smoothing(graph)
    if graph.x.layout == torch.sparse_csr and not graph.x.is_cuda and is_fast():
        nnz = factored_nnz(graph.x.values().numel(), adjacency.values().numel(), n_hops)
        if pays(nnz, graph.n, graph.n_features * (n_hops + 1)):
            return Propagated(_factored(adjacency, graph.x, n_hops), adjacency)
    return Propagated(_compact(_table(adjacency, _thawed(graph), n_hops)), adjacency)


def factored_nnz(nnz: int, nnz_adjacency: int, n_hops: int) -> int:
    """Non-zeros of ``[X | SX | … | SʰX]`` as products: X for each block, and S once for each hop of it."""
    return nnz + nnz_adjacency if n_hops == 0 else (n_hops + 1) * nnz + nnz_adjacency * n_hops * (n_hops + 1) // 2


def features(graph: Graph, *, to_sum_one: bool) -> Tensor | SparseBlocks:
    """X as a layer's input, which can be multiplied with weights; ``to_sum_one`` scales the rows to sums of 1."""
    x = unit_sums(graph.x) if to_sum_one else graph.x
    if x.layout == torch.sparse_csr and not x.is_cuda:
        sparse = is_fast() and pays(x.values().numel(), graph.n, graph.n_features)
        return SparseBlocks((factors(x),)) if sparse else x.to_dense()
    return _compact(x)


def hops(graph: Graph, n_hops: int) -> Tensor:
    """``[X | SX | … | SʰX]`` as a table, dense or CSR, with rows of each block at one length."""
    return _compact(_table(smoothing(graph), _thawed(graph), n_hops))


def _thawed(graph: Graph) -> Tensor:
    """X, dense where it will be so in the end. On a GPU it comes sparse, and is dense only once, at the end."""
    dense = graph.x.layout == torch.sparse_csr and not graph.x.is_cuda and graph.density > DENSE_FROM
    return graph.x.to_dense() if dense else graph.x


def _table(adjacency: Tensor, x: Tensor, n_hops: int) -> Tensor:
    if n_hops == 0:
        return _smooth(adjacency, x)
    blocks = [x]
    for _ in range(n_hops):
        blocks.append(_smooth(adjacency, blocks[-1]))
    return _join([HOP_LENGTH * unit_rows(block) for block in blocks])


def _factored(adjacency: Tensor, x: Tensor, n_hops: int) -> SparseBlocks:
    """The same as products of S and X, which are far sparser than what they give."""
    if n_hops == 0:
        return SparseBlocks((factors(adjacency, x),))
    blocks, smoothed = [factors(HOP_LENGTH * unit_rows(x))], x
    for depth in range(1, n_hops + 1):
        smoothed = _smooth(adjacency, smoothed)  # for the lengths of its rows only
        scaled = _scale_rows(adjacency, HOP_LENGTH / row_lengths(smoothed))
        blocks.append(factors(scaled, *[adjacency] * (depth - 1), x))
    return SparseBlocks(tuple(blocks))


def _smooth(adjacency: Tensor, x: Tensor) -> Tensor:
    if x.layout != torch.sparse_csr:
        return adjacency @ x
    # scipy multiplies two sparse matrices on any build; PyTorch needs MKL for it.
    return csr_from_scipy(csr_to_scipy(adjacency) @ csr_to_scipy(x)).to(x.device)


def unit_rows(x: Tensor) -> Tensor:
    """Rows scaled to Euclidean length 1, dense or CSR; rows of zeros stay."""
    return F.normalize(x) if x.layout != torch.sparse_csr else _scale_rows(x, 1 / row_lengths(x))


def unit_sums(x: Tensor) -> Tensor:
    """Rows scaled so that their absolute values sum to 1, dense or CSR; rows of zeros stay."""
    if x.layout != torch.sparse_csr:
        return F.normalize(x, p=1.0)
    row = torch.repeat_interleave(x.crow_indices().diff())
    total = x.values().new_zeros(x.shape[0]).index_add_(0, row, x.values().abs())
    return _scale_rows(x, 1 / total.clamp(min=1e-12))


def row_lengths(x: Tensor) -> Tensor:
    """Of a CSR tensor: [n], at least 1e-12, so that a stored zero does not become 0 / 0."""
    row = torch.repeat_interleave(x.crow_indices().diff())
    square = x.values().new_zeros(x.shape[0]).index_add_(0, row, x.values().square())
    return square.sqrt().clamp(min=1e-12)


def _scale_rows(x: Tensor, factor: Tensor) -> Tensor:
    row = torch.repeat_interleave(x.crow_indices().diff())
    return csr(x.crow_indices(), x.col_indices(), x.values() * factor[row], (x.shape[0], x.shape[1]))


def _join(blocks: list[Tensor]) -> Tensor:
    if blocks[0].layout != torch.sparse_csr:
        return torch.cat(blocks, dim=1)
    return csr_from_scipy(sp.hstack([csr_to_scipy(block) for block in blocks])).to(blocks[0].device)


def _compact(x: Tensor) -> Tensor:
    """The layout in which the product with the weights is fastest: always dense on a GPU."""
    if x.is_cuda:
        missing = -x.shape[1] % ALIGNED
        if x.layout != torch.sparse_csr:
            return F.pad(x, (0, missing))
        # Wider before it is dense: a table is never there twice.
        return csr(x.crow_indices(), x.col_indices(), x.values(), (x.shape[0], x.shape[1] + missing)).to_dense()
    if x.layout != torch.sparse_csr:
        return x
    density = x.values().numel() / (x.shape[0] * x.shape[1])
    return x.to_dense() if density > DENSE_FROM else x
