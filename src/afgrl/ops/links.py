"""Messages along the edges: the product of a sparse matrix, whose values change from step to step, with vectors.

A dropped edge keeps its place and gets the weight 0, so that no size follows from chance and a step can be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.csr import csr
from afgrl.graph import Graph
from afgrl.ops.dispatch import takes_kernels
from afgrl.ops.propagate import relative_weights, smoothing

PIECE = 64  # entries; a node of thousands of neighbors shall not be waited for when all others are done


class Pieces(NamedTuple):
    """Rows cut into pieces of at most ``PIECE`` entries, so that a GPU has equal shares of work."""

    first: Tensor  # [p] int64: the first entry of a piece
    last: Tensor  # [p] int64: the one after its last
    to: Tensor  # [p] int64: the row, where it is the whole of it; else n and more, in order
    parted: Tensor  # [r] int64: the rows of several pieces
    begin: Tensor  # [r + 1] int64: where the sums of their pieces are


@dataclass(frozen=True, eq=False)
class Links:
    """Where a sparse [n, n] matrix has entries: row by row, and column by column for the way back."""

    start: Tensor  # [n + 1] int64: entries start[i] to start[i + 1] - 1 are those of row i
    target: Tensor  # [e] int64, ascending: the row, which receives
    source: Tensor  # [e] int64: the column, which sends
    start_back: Tensor  # [n + 1] int64: the same by columns
    target_back: Tensor  # [e] int64
    order_back: Tensor  # [e] int64: which entry that is
    pieces: Pieces  # of the rows
    pieces_back: Pieces
    weight: Tensor | None = None  # [e] of the edges, in units of their mean, and 1 for loops; None: all 1

    @property
    def n(self) -> int:
        return self.start.shape[0] - 1

    @property
    def is_loop(self) -> Tensor:
        return self.target == self.source


def links(graph: Graph) -> Links:
    """The edges of a graph, and a loop at each node."""
    found, relative = links_of(smoothing(graph)), relative_weights(graph)
    if relative is None:
        return found
    return replace(found, weight=torch.cat([relative, relative.new_ones(1)])[edge_places(found, graph)])


def links_of(matrix: Tensor) -> Links:
    """The places of a CSR tensor [n, n]."""
    start, source, n = matrix.crow_indices(), matrix.col_indices(), matrix.shape[0]
    target = torch.repeat_interleave(start.diff(), output_size=source.shape[0])
    sender, order = torch.sort(source, stable=True)
    start_back = torch.searchsorted(sender, torch.arange(n + 1, device=source.device))
    return Links(start, target, source, start_back, target[order], order, pieces(start), pieces(start_back))


def pieces(start: Tensor) -> Pieces:
    """Of rows whose entries begin at ``start``, [n + 1]."""
    n = start.shape[0] - 1
    count = (start.diff() + PIECE - 1).div(PIECE, rounding_mode="floor").clamp(min=1)
    row = torch.repeat_interleave(count)
    place = torch.arange(len(row), device=start.device) - (count.cumsum(0) - count)[row]
    first = start[row] + place * PIECE
    parted = (count > 1).nonzero().squeeze(1)
    begin = F.pad(count[parted].cumsum(0), (1, 0)) + n
    to, is_part = row.clone(), count[row] > 1
    to[is_part] = n + torch.arange(int(is_part.sum()), device=start.device)
    return Pieces(first, torch.minimum(first + PIECE, start[row + 1]), to, parted, begin)


def edge_places(links: Links, graph: Graph) -> Tensor:
    """For each entry the number of its edge in ``graph.edge_index``: [e] int64, and -1 for a loop."""
    wanted = links.source * graph.n + links.target
    edges = graph.edge_index[0] * graph.n + graph.edge_index[1]  # ascending, as a Graph has them
    if edges.numel() == 0:
        return torch.full_like(wanted, -1)
    return torch.where(links.is_loop, -1, torch.searchsorted(edges, wanted))


def gcn_weights(links: Links, kept: Tensor | None = None) -> Tensor:
    """The values of D^-1/2 A D^-1/2 where A has the entries that are ``kept`` (1 or 0; all of them by default)."""
    if links.weight is not None:
        return _weighted(links, links.weight if kept is None else links.weight * kept)
    if kept is None:
        degree = links.start.diff()
    else:
        count = torch.cat([links.start.new_zeros(1), kept.to(torch.int64).cumsum(0)])
        degree = count[links.start[1:]] - count[links.start[:-1]]
    scale = degree.clamp(min=1).to(torch.float32).rsqrt()
    weight = scale[links.target] * scale[links.source]
    return weight if kept is None else weight * kept


def _weighted(links: Links, weight: Tensor) -> Tensor:
    # Summed as messages are, in one order on every device.
    degree = gather(links, weight, weight.new_ones(links.n, 1)).squeeze(1)
    scale = torch.where(degree > 0, degree, 1.0).rsqrt()
    return scale[links.target] * scale[links.source] * weight


def gather(links: Links, weight: Tensor, h: Tensor) -> Tensor:
    """``out[i] = Σ weight[e] · h[source[e]]`` over the entries e of row i; the gradient flows to ``h`` only."""
    out: Tensor = _Gather.apply(h, weight.detach(), links)
    return out


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, links: Links) -> Tensor:
        ctx.links = links
        ctx.save_for_backward(weight)
        if takes_kernels(h):
            from afgrl.ops.links_triton import gather_kernel

            return gather_kernel(links.n, links.pieces, links.source, weight, None, h)
        return _product(links.start, links.source, weight, h)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (weight,), links, grad = ctx.saved_tensors, ctx.links, grads[0]
        if takes_kernels(grad):
            from afgrl.ops.links_triton import gather_kernel

            back = links.pieces_back, links.target_back, weight, links.order_back
            return gather_kernel(links.n, *back, grad), None, None
        return _product(links.start_back, links.target_back, weight[links.order_back], grad), None, None


def _product(start: Tensor, other: Tensor, weight: Tensor, h: Tensor) -> Tensor:
    n = start.shape[0] - 1
    return csr(start, other, weight, (n, n)) @ h
