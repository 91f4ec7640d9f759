"""Random walks over a graph, many at once: uniform (DeepWalk) and second-order (node2vec)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from afgrl.errors import UserError
from afgrl.ops.dispatch import takes_kernels
from afgrl.ops.walks.reference import WalkGraph, biased_walks_reference, uniform_walks_reference, walk_graph

__all__ = ["WalkGraph", "biased_walks", "tries_needed", "uniform_walks", "walk_graph"]

REJECT_ALL = 1e-3  # largest probability that all proposals of a step are rejected
MAX_TRIES = 128  # enough for that with q from 1/19 to 19; node2vec's own grid, 1/4 to 4, needs 25


def uniform_walks(graph: WalkGraph, start: Tensor, length: int, rng: torch.Generator) -> Tensor:
    """A walk from each node of ``start`` [b], to uniform neighbors or in proportion to edge weights: [b, length] int64.

    A walk at a node without neighbors stays there.
    """
    if graph.adjacency.nnz == 0:
        return start.unsqueeze(1).repeat(1, length)
    draws = torch.rand(length - 1, len(start), generator=rng, device=start.device)
    if takes_kernels(start) and graph.cumulative is None:
        from afgrl.ops.walks.triton import uniform_walks_triton

        return uniform_walks_triton(graph, start, draws)
    return uniform_walks_reference(graph, start, draws)


def biased_walks(
    graph: WalkGraph,
    start: Tensor,
    length: int,
    p: float,
    q: float,
    rng: torch.Generator,
    tries: int | None = None,
) -> Tensor:
    """Walks of node2vec: [b, length] int64. A walk at a node without neighbors stays there.

    From ``previous`` at ``current``, the weight of a neighbor is 1/p if it is ``previous``, 1 if it is adjacent to
    ``previous``, otherwise 1/q; it is multiplied by the edge weight, if edges have weights.

    Each step draws ``tries`` proposals at once and takes the first accepted one, so that no table of second-order
    weights is needed. A proposal is accepted with probability at least a = min(q, 1/q), for any p; if none is, the
    first is taken. The distribution of a step is thus off by less than (1 - a)^tries, by default below 1/1000.
    """
    if not (p > 0 and q > 0):
        raise UserError(f"The walk parameters p and q must be above 0, but they are {p} and {q}.")
    if graph.adjacency.nnz == 0:
        return start.unsqueeze(1).repeat(1, length)
    tries = tries_needed(q) if tries is None else tries
    draws = torch.rand(length - 1, 2, tries, len(start), generator=rng, device=start.device)
    if takes_kernels(start) and graph.cumulative is None:
        from afgrl.ops.walks.triton import biased_walks_triton

        return biased_walks_triton(graph, start, draws, p, q)
    return biased_walks_reference(graph, start, draws, p, q)


def tries_needed(q: float) -> int:
    """Proposals per step so that all are rejected with probability ``REJECT_ALL`` at most, limited to ``MAX_TRIES``."""
    accepted = min(q, 1 / q)
    if accepted == 1:
        return 1
    return min(math.ceil(math.log(REJECT_ALL) / math.log1p(-accepted)), MAX_TRIES)
