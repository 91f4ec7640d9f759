"""Random walks step by step in PyTorch, and the graph type that all versions read.

All shapes and the number of kernels follow from the arguments, not from the draws, and nothing is read back from a
GPU: walks can be captured in a CUDA graph together with the training step that uses them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.ops.sparse.matrix import SparseMatrix


class WalkGraph(NamedTuple):
    """The adjacency matrix, with sorted edge keys and cumulative weights for binary searches."""

    adjacency: SparseMatrix  # [n, n]; row i has the neighbors of node i, ascending
    keys: Tensor  # [e] int64, ascending: row · n + column of each entry
    cumulative: Tensor | None  # [e + 1] float64: sum of the weights before each entry; None: edges have no weights

    @property
    def degree(self) -> Tensor:
        return self.adjacency.indptr.diff()

    def find(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The entry number of each edge, or where it would be inserted, and whether it exists."""
        wanted = source * self.adjacency.shape[0] + target
        entry = torch.searchsorted(self.keys, wanted)
        return entry, self.keys[entry.clamp(max=len(self.keys) - 1)] == wanted

    def neighbor(self, first: Tensor, slot: Tensor) -> Tensor:
        """The column of entry ``first + slot``; an arbitrary node if that is beyond the last entry."""
        return self.adjacency.indices[(first + slot).clamp(max=self.adjacency.nnz - 1)]

    def row(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """The first entry and the degree of each node."""
        first = self.adjacency.indptr[node]
        return first, self.adjacency.indptr[node + 1] - first


def walk_graph(graph: Graph) -> WalkGraph:
    source, target = graph.edge_index
    adjacency = SparseMatrix.from_coo(source, target, (graph.n, graph.n), graph.edge_weight)
    cumulative = None
    if graph.edge_weight is not None:  # on the CPU, where the order of a sum is fixed
        cumulative = F.pad(graph.edge_weight.cpu().double().cumsum(0), (1, 0)).to(source.device)
    return WalkGraph(adjacency, source * graph.n + target, cumulative)


def uniform_walks_reference(graph: WalkGraph, start: Tensor, draws: Tensor) -> Tensor:
    """The walks that ``draws`` [length - 1, b], uniform in [0, 1), lead to: [b, length]."""
    walk = [start]
    for draw in draws:
        current = walk[-1]
        first, degree = graph.row(current)
        if graph.cumulative is None:
            following = graph.neighbor(first, _slot(draw * degree, degree))
        else:
            low, total = _weight_range(graph.cumulative, first, degree)
            following = graph.adjacency.indices[_entry_at(graph.cumulative, low + draw * total, first, degree)]
        walk.append(torch.where(degree > 0, following, current))
    return torch.stack(walk, dim=1)


def biased_walks_reference(graph: WalkGraph, start: Tensor, draws: Tensor, p: float, q: float) -> Tensor:
    """The walks that ``draws`` [length - 1, 2, tries, b], uniform in [0, 1), lead to: [b, length]."""
    # The first step has no previous node. With the start itself as the previous node, every neighbor is adjacent to it
    # and has the same weight.
    walk = [start, start]
    for drawn in draws:
        walk.append(_second_order_step(graph, walk[-2], walk[-1], p, q, drawn))
    return torch.stack(walk[1:], dim=1)


def _second_order_step(
    graph: WalkGraph, previous: Tensor, current: Tensor, p: float, q: float, draws: Tensor
) -> Tensor:
    """One step of node2vec by rejection sampling with ``draws`` [2, tries, b]: [b].

    A proposal is a point on a line. ``previous`` takes 1/p of the line, each other neighbor max(1, 1/q), of which only
    the length of its own weight is accepted. So returning, one edge that may weigh much more or less than all others,
    causes no rejections.
    """
    first, degree = graph.row(current)
    entry, returns = graph.find(current, previous)  # a directed edge may have no reverse
    tallest = max(1.0, 1 / q)
    if graph.cumulative is None:
        others, back = degree - returns.long(), returns / p
        point = draws[0] * (back + tallest * others)  # [tries, b]
        slot = _slot((point - back) / tallest, others)
        slot += returns & (first + slot >= entry)  # slots count the other neighbors, without the previous node
        candidate = graph.neighbor(first, slot)
    else:
        cumulative = graph.cumulative
        low, total = _weight_range(cumulative, first, degree)
        before = cumulative[entry.clamp(max=len(cumulative) - 2)]  # of the previous node, if it is a neighbor
        returning = returns * (cumulative[(entry + 1).clamp(max=len(cumulative) - 1)] - before)
        back = returning / p
        point = draws[0] * (back + tallest * (total - returning))
        position = low + (point - back) / tallest
        position += (returns & (position >= before)) * returning
        candidate = graph.adjacency.indices[_entry_at(cumulative, position, first, degree)]
    weight = torch.where(graph.find(previous, candidate)[1], 1.0, 1 / q)
    is_return = point < back
    accepted = is_return | (draws[1] * tallest < weight)
    choice = torch.where(is_return, previous, candidate).gather(0, accepted.byte().argmax(0, keepdim=True))
    return torch.where(degree > 0, choice.squeeze(0), current)


def _weight_range(cumulative: Tensor, first: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
    """The cumulative weight before the first neighbor of each node, and the total weight of its neighbors."""
    low = cumulative[first]
    return low, cumulative[first + degree] - low


def _entry_at(cumulative: Tensor, position: Tensor, first: Tensor, degree: Tensor) -> Tensor:
    """The entry at ``position`` of the cumulative weights, clamped to the node's own entries against rounding."""
    entry = torch.searchsorted(cumulative, position, right=True) - 1
    return torch.maximum(torch.minimum(entry, first + degree - 1), first).clamp(max=len(cumulative) - 2)


def _slot(position: Tensor, count: Tensor) -> Tensor:
    """``position`` rounded down to one of 0 … count - 1; float32 could round it up to ``count`` if that is large."""
    return torch.minimum(position.long(), count - 1).clamp_(min=0)
