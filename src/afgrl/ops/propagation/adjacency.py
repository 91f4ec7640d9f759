"""The normalized adjacency matrix of a GCN, S = D^-1/2 (A + I) D^-1/2.

Row i holds what node i receives. If edges have weights, those are A's values, divided by their mean, so that a
self-loop counts as much as an average edge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from afgrl.csr import csr_tensor
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.ops.collectives import Shards
from afgrl.ops.propagation.sharded import ShardedMatrix
from afgrl.ops.sparse import spmm
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.sparse.rows import row_range

BLOCK_EDGES = 1 << 24  # that are placed at once
Adjacency = Any  # S: a CSR tensor, or a ``ShardedMatrix`` with the rows of this process


def gcn_norm(graph: Graph) -> Tensor:
    """S as an [n, n] CSR tensor, for products that are computed once."""
    return gcn_norm_rows(graph, 0, graph.n)


def gcn_norm_rows(graph: Graph | MappedGraph, begin: int, end: int) -> Tensor:
    """The rows ``begin`` to ``end - 1`` of S: [end - begin, n] CSR. Of the other edges, only blocks are in memory."""
    if graph.directed:
        return row_range(_sorted_by_receiver(graph), begin, end)
    row = graph.edge_index[0]  # symmetric, so that either end may receive
    nodes = torch.arange(graph.n + 1, dtype=row.dtype, device=row.device)
    crow = torch.searchsorted(row, nodes) + nodes  # of A + I
    mean = None if graph.edge_weight is None else _mean_weight(graph.edge_weight)
    degree = crow.diff().to(torch.float32) if mean is None else _weighted_degree(graph, mean)
    scale = degree.rsqrt().to(row.device, torch.float32)  # the self-loop makes every degree at least 1
    return _placed_rows(graph, crow, scale, mean, begin, end)


def edge_numbers_from(graph: Graph | MappedGraph, begin: int, end: int) -> Tensor:
    """The edges that begin at the nodes ``begin`` to ``end - 1``: [any] int64, ``source · n + target``, ascending."""
    source, target = graph.edge_index
    first, last = torch.searchsorted(source, torch.tensor([begin, end]).to(source)).tolist()
    return source[first:last].to(torch.int64) * graph.n + target[first:last]


def _mean_weight(weight: Tensor) -> Tensor:
    """The mean in float32, from sums of blocks in float64: []."""
    total = sum((part.double().sum() for part in weight.split(BLOCK_EDGES)), weight.new_zeros((), dtype=torch.float64))
    return (total / len(weight)).to(torch.float32)


def _placed_rows(
    graph: Graph | MappedGraph, crow: Tensor, scale: Tensor, mean: Tensor | None, begin: int, end: int
) -> Tensor:
    """Rows of S of an undirected graph, from the row pointers [n + 1] of A + I. Its edges are sorted already, so that
    the loops only have to be put between them. In blocks of edges, since a sort would take several times the memory of
    the result."""
    device, (row, column) = crow.device, graph.edge_index
    first, last = int(crow[begin]), int(crow[end])  # entries of S that are here
    columns = torch.empty(last - first, dtype=torch.int64, device=device)
    values = torch.empty(last - first, dtype=torch.float32, device=device)
    before = torch.zeros(end - begin, dtype=torch.int64, device=device)  # neighbors with a lower number
    for start in range(first - begin, last - end, BLOCK_EDGES):
        part = slice(start, min(start + BLOCK_EDGES, last - end))
        receiver, sender = row[part].to(torch.int64), column[part].to(torch.int64)
        is_lower = sender < receiver
        before += torch.bincount(receiver[is_lower] - begin, minlength=end - begin)
        # Before the edge (i, j) there are the loops of 0 … i - 1, and that of i if j is larger.
        place = torch.arange(part.start - first, part.stop - first, device=device) + receiver + ~is_lower
        value = scale[receiver] * scale[sender]
        if mean is not None:
            value *= graph.edge_weight[part] / mean  # type: ignore[index]
        columns[place], values[place] = sender, value
    own = torch.arange(begin, end, device=device)
    crow = crow[begin : end + 1] - first
    place = crow[:-1] + before
    columns[place], values[place] = own, scale[own] * scale[own]
    return csr_tensor(crow, columns, values, (end - begin, graph.n))


def _weighted_degree(graph: Graph | MappedGraph, mean: Tensor) -> Tensor:
    """Sums of the rows of A + I: [n] float64. On the CPU, where the order of a sum is fixed: the same bits in every
    call, those of a sum by the order of columns."""
    degree = torch.zeros(graph.n, dtype=torch.float64)
    for lower in (True, False):
        for start in range(0, graph.edge_index.shape[1], BLOCK_EDGES):
            part = slice(start, start + BLOCK_EDGES)
            receiver, sender = graph.edge_index[:, part].cpu()
            chosen = (sender < receiver) == lower
            weight = (graph.edge_weight[part] / mean).cpu().double()  # type: ignore[index]
            degree.index_add_(0, receiver[chosen], weight[chosen])
        degree += lower  # the loop, between the lower and the higher columns
    return degree


def _sorted_by_receiver(graph: Graph | MappedGraph) -> Tensor:
    """S of any graph, by a sort of all its edges."""
    n, (row, column, weight) = graph.n, _entries(graph)
    count = torch.bincount(row, minlength=n)
    crow = torch.cat([count.new_zeros(1), count.cumsum(0)])
    if weight is None:
        scale = count.to(torch.float32).rsqrt()  # the self-loop makes every degree at least 1
        return csr_tensor(crow, column, scale[row] * scale[column], (n, n))
    # On the CPU, where the order of a sum is fixed: the same bits in every call.
    degree = torch.zeros(n, dtype=torch.float64).index_add_(0, row.cpu(), weight.cpu().double())
    scale = degree.rsqrt().to(row.device, torch.float32)
    return csr_tensor(crow, column, scale[row] * scale[column] * weight, (n, n))


def own_adjacency(graph: Graph | MappedGraph, shards: Shards, device: torch.device) -> Adjacency:
    """The rows of S that this process has, for products with tables of its rows."""
    if not shards.distributed:
        assert isinstance(graph, Graph)
        return gcn_norm(graph)
    rows = gcn_norm_rows(graph, shards.begin, shards.end).to(device)
    return ShardedMatrix.of(rows.crow_indices(), rows.col_indices(), rows.values(), shards)


def diagonal(adjacency: Adjacency) -> Tensor:
    """The entries of S on its diagonal, in the rows of this process; every node has a self-loop: [n_own]."""
    if isinstance(adjacency, ShardedMatrix):
        return adjacency.diagonal()
    column = adjacency.col_indices()
    row = torch.repeat_interleave(adjacency.crow_indices().diff(), output_size=len(column))
    entries: Tensor = adjacency.values()[row == column]
    return entries


def gcn_adjacency(graph: Graph) -> SparseMatrix:
    """A + I, whose edges ``gcn_values`` can drop in each step; its values are None if edges have no weights."""
    row, column, weight = _entries(graph)
    return SparseMatrix.from_coo(row, column, (graph.n, graph.n), weight, split_rows=True)


def gcn_values(adjacency: SparseMatrix, mask: Tensor | None = None) -> Tensor:
    """The values of S for the edges that ``mask`` [e] (1 or 0) keeps; by default for all."""
    if adjacency.values is not None:
        return _weighted_values(adjacency, adjacency.values if mask is None else adjacency.values * mask)
    if mask is None:
        degree = adjacency.indptr.diff()
    else:
        count = torch.cat([adjacency.indptr.new_zeros(1), mask.to(torch.int64).cumsum(0)])
        degree = count[adjacency.indptr[1:]] - count[adjacency.indptr[:-1]]
    scale = degree.clamp(min=1).to(torch.float32).rsqrt()
    values = scale[adjacency.rows] * scale[adjacency.indices]
    return values if mask is None else values * mask


def _weighted_values(adjacency: SparseMatrix, weight: Tensor) -> Tensor:
    # By a product, whose sums have a fixed order on every device.
    degree = spmm(adjacency, weight.new_ones(adjacency.shape[0], 1), weight).squeeze(1)
    scale = torch.where(degree > 0, degree, 1.0).rsqrt()
    return scale[adjacency.rows] * scale[adjacency.indices] * weight


def edge_numbers(adjacency: SparseMatrix, graph: Graph) -> Tensor:
    """The column of ``graph.edge_index`` that each entry comes from, -1 for a self-loop: [e] int64."""
    wanted = adjacency.indices * graph.n + adjacency.rows
    edges = graph.edge_index[0] * graph.n + graph.edge_index[1]  # ascending, an invariant of Graph
    if edges.numel() == 0:
        return torch.full_like(wanted, -1)
    return torch.where(adjacency.on_diagonal, -1, torch.searchsorted(edges, wanted))


class _Entries(NamedTuple):
    """Of A + I, sorted by row and column."""

    row: Tensor  # [e + n] int64, the node that receives
    column: Tensor  # [e + n] int64, the node that sends
    weight: Tensor | None  # [e + n] divided by the mean of the edges, 1 for self-loops


def _entries(graph: Graph | MappedGraph) -> _Entries:
    source, target = graph.edge_index.to(torch.int64)
    loops = torch.arange(graph.n, device=source.device)
    row, column = torch.cat([target, loops]), torch.cat([source, loops])
    order = torch.argsort(row * graph.n + column)
    weight = graph.edge_weight
    if weight is not None:
        relative = weight / _mean_weight(weight)
        weight = torch.cat([relative, relative.new_ones(graph.n)])[order]
    return _Entries(row[order], column[order], weight)
