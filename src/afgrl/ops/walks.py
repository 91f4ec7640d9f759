"""Random walks, many at once, over the lists of neighbors.

Every shape and the number of kernels follow from the arguments, never from what is drawn, and nothing is read back from
a GPU: walks can be recorded together with the training step that uses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.dispatch import takes_kernels

NONE_ACCEPTED = 1e-3  # the largest chance that all proposals of a step are rejected
MAX_TRIES = 128  # enough for that with q from 1/19 to 19; node2vec's own grid, 1/4 to 4, needs 25


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """The neighbors of every node; those of node i are ``node[start[i]:start[i + 1]]``."""

    start: Tensor  # [n + 1] int64
    node: Tensor  # [e] int64, ascending within a neighborhood
    key: Tensor  # [e] int64, ascending: i * n + node, where one binary search finds any edge
    ahead: Tensor | None = None  # [e + 1] float64: the weights of all entries before each; None: all alike

    @property
    def n(self) -> int:
        return self.start.shape[0] - 1

    @property
    def degree(self) -> Tensor:
        return self.start.diff()

    def find(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Where the edge from ``source`` to ``target`` is or would be in ``node``, and whether it is there."""
        wanted = source * self.n + target
        position = torch.searchsorted(self.key, wanted)
        return position, self.key[position.clamp(max=len(self.key) - 1)] == wanted

    def pick(self, first: Tensor, slot: Tensor) -> Tensor:
        """The neighbor ``slot`` places after ``first``; some node where that is beyond the last one."""
        return self.node[(first + slot).clamp(max=len(self.node) - 1)]


def neighborhoods(graph: Graph) -> Neighborhoods:
    source, target = graph.edge_index
    nodes = torch.arange(graph.n + 1, device=source.device)
    ahead = None
    if graph.edge_weight is not None:  # on the CPU, where sums have one order
        ahead = F.pad(graph.edge_weight.cpu().double().cumsum(0), (1, 0)).to(source.device)
    return Neighborhoods(torch.searchsorted(source, nodes), target, source * graph.n + target, ahead)


def uniform_walks(neighborhoods: Neighborhoods, begin: Tensor, length: int, rng: torch.Generator) -> Tensor:
    """From every node of ``begin``, [b], a walk to neighbors drawn uniformly (DeepWalk), or by the weights of the
    edges where these have some: [b, length] int64.

    A node without neighbors stays where it is.
    """
    if len(neighborhoods.node) == 0:
        return begin.unsqueeze(1).repeat(1, length)
    draws = torch.rand(length - 1, len(begin), generator=rng, device=begin.device)
    if takes_kernels(begin) and neighborhoods.ahead is None:
        from afgrl.ops.walks_triton import uniform_kernel

        return uniform_kernel(neighborhoods, begin, draws)
    return uniform_reference(neighborhoods, begin, draws)


def uniform_reference(neighborhoods: Neighborhoods, begin: Tensor, draws: Tensor) -> Tensor:
    """The walks that ``draws`` [length - 1, b] lead to."""
    walk = [begin]
    for draw in draws:
        current = walk[-1]
        first, degree = _row(neighborhoods, current)
        if neighborhoods.ahead is None:
            following = neighborhoods.pick(first, _slot(draw * degree, degree))
        else:
            low, whole = _span(neighborhoods.ahead, first, degree)
            following = neighborhoods.node[_place(neighborhoods.ahead, low + draw * whole, first, degree)]
        walk.append(torch.where(degree > 0, following, current))
    return torch.stack(walk, dim=1)


def biased_walks(
    neighborhoods: Neighborhoods,
    begin: Tensor,
    length: int,
    p: float,
    q: float,
    rng: torch.Generator,
    tries: int | None = None,
) -> Tensor:
    """Walks as node2vec's: [b, length] int64. From ``previous`` at ``current`` the weight of a neighbor is 1/p if it
    is ``previous``, 1 if it is adjacent to ``previous``, else 1/q; times the weight of the edge where edges have some.
    A node without neighbors stays where it is.

    Neighbors are proposed and accepted or not, ``tries`` of them at once, so that no table of weights is needed. A
    proposal is accepted with a chance of at least a = min(q, 1/q), whatever p; if none is, the first is taken. A step's
    distribution is thus off by less than (1 - a)^tries, which is below 1/1000 by default.
    """
    if not (p > 0 and q > 0):
        raise UserError(f"The weights of a walk, p and q, must be above 0, but they are {p} and {q}.")
    if len(neighborhoods.node) == 0:
        return begin.unsqueeze(1).repeat(1, length)
    tries = tries_needed(q) if tries is None else tries
    draws = torch.rand(length - 1, 2, tries, len(begin), generator=rng, device=begin.device)
    if takes_kernels(begin) and neighborhoods.ahead is None:
        from afgrl.ops.walks_triton import biased_kernel

        return biased_kernel(neighborhoods, begin, draws, p, q)
    return biased_reference(neighborhoods, begin, draws, p, q)


def biased_reference(neighborhoods: Neighborhoods, begin: Tensor, draws: Tensor, p: float, q: float) -> Tensor:
    """The walks that ``draws`` [length - 1, 2, tries, b] lead to."""
    # Where nothing came before, the walk came from where it is: then every neighbor is adjacent and weighs the same.
    walk = [begin, begin]
    for drawn in draws:
        walk.append(_second_order(neighborhoods, walk[-2], walk[-1], p, q, drawn))
    return torch.stack(walk[1:], dim=1)


def tries_needed(q: float) -> int:
    """Proposals a step needs for at least one to be accepted, but for a chance of ``NONE_ACCEPTED``."""
    rejected = 1 - min(q, 1 / q)
    if rejected == 0:
        return 1
    return min(math.ceil(math.log(NONE_ACCEPTED) / math.log(rejected)), MAX_TRIES)


def _second_order(
    neighborhoods: Neighborhoods, previous: Tensor, current: Tensor, p: float, q: float, draws: Tensor
) -> Tensor:
    """One step, [b], by throwing darts, ``draws`` [2, tries, b], at a line of the neighbors of ``current``.

    ``previous`` takes 1/p of it, each other neighbor max(1, 1/q) of which only its own weight counts as a hit. So the
    way back, one edge that may weigh much more or less than all others, costs no rejections.
    """
    first, degree = _row(neighborhoods, current)
    position, returns = neighborhoods.find(current, previous)  # a directed edge has no way back
    tallest = max(1.0, 1 / q)
    if neighborhoods.ahead is None:
        others, back = degree - returns.long(), returns / p
        dart = draws[0] * (back + tallest * others)  # [tries, b]
        slot = _slot((dart - back) / tallest, others)
        slot += returns & (first + slot >= position)  # the others are numbered without the previous node
        candidate = neighborhoods.pick(first, slot)
    else:
        ahead = neighborhoods.ahead
        low, whole = _span(ahead, first, degree)
        before = ahead[position.clamp(max=len(ahead) - 2)]  # of the previous node, where it is a neighbor
        returning = returns * (ahead[(position + 1).clamp(max=len(ahead) - 1)] - before)
        back = returning / p
        dart = draws[0] * (back + tallest * (whole - returning))
        target = low + (dart - back) / tallest
        target += (returns & (target >= before)) * returning
        candidate = neighborhoods.node[_place(ahead, target, first, degree)]
    weight = torch.where(neighborhoods.find(previous, candidate)[1], 1.0, 1 / q)
    home = dart < back
    accepted = home | (draws[1] * tallest < weight)
    choice = torch.where(home, previous, candidate).gather(0, accepted.byte().argmax(0, keepdim=True))
    return torch.where(degree > 0, choice.squeeze(0), current)


def _row(neighborhoods: Neighborhoods, node: Tensor) -> tuple[Tensor, Tensor]:
    """Where the neighbors of each node begin, and how many there are."""
    first = neighborhoods.start[node]
    return first, neighborhoods.start[node + 1] - first


def _span(ahead: Tensor, first: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
    """Where the weights of neighborhoods begin on the line of all of them, and how long each is."""
    low = ahead[first]
    return low, ahead[first + degree] - low


def _place(ahead: Tensor, target: Tensor, first: Tensor, degree: Tensor) -> Tensor:
    """Which entry is at ``target`` on the line of all weights; one of a node's own, whatever was rounded."""
    found = torch.searchsorted(ahead, target, right=True) - 1
    return torch.maximum(torch.minimum(found, first + degree - 1), first).clamp(max=len(ahead) - 2)


def _slot(place: Tensor, count: Tensor) -> Tensor:
    """``place`` rounded down to one of 0 … count - 1; float32 could round it up to ``count`` where that is large."""
    return torch.minimum(place.long(), count - 1).clamp_(min=0)
