"""What the compared methods change in a graph: edges and features dropped at random, alike or by importance.

A training step takes probabilities that were computed once and draws a mask from them with ``kept``. The mask has the
size of what it covers, whatever it drops, so that a step can be recorded and no GPU is waited for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr, csr_to_scipy
from afgrl.errors import UserError, unknown
from afgrl.graph import Graph

Centrality = Literal["degree", "pagerank", "eigenvector"]

DAMPING = 0.85  # of PageRank, as everyone has it
PAGERANK_STEPS = 200  # what is left to do shrinks by DAMPING a step: to 1e-14
# An eigenvector settles with the gap between the two greatest eigenvalues, which a long chain hardly has: there the
# last vector stands for it.
EIGENVECTOR_STEPS, EIGENVECTOR_CHANGE = 2_000, 1e-12
LEAST_SHARE = 1e-8  # of the greatest importance: below it a logarithm would leave all other differences without weight
SAME = 1e-6  # a mean difference of logarithms below this is rounding


def kept(drop: Tensor, rng: torch.Generator) -> Tensor:
    """1 for what stays and 0 for what goes, each on its own with its probability in ``drop``: float32, of its shape."""
    return (torch.rand(drop.shape, generator=rng, device=drop.device) >= drop).to(torch.float32)


def uniform(size: int, rate: float, device: torch.device | str = "cpu") -> Tensor:
    """The same probability ``rate`` to be dropped for all: [size]."""
    return torch.full((size,), _checked_rate(rate), device=device)


def drop_probabilities(weights: Tensor, rate: float, threshold: float = 0.7) -> Tensor:
    """Probabilities to be dropped in proportion to ``weights``, ``rate`` on average, none above ``threshold``.

    The cap keeps the least important from being lost in nearly every view; what it cuts off is not given to others.
    """
    mean = weights.mean().clamp(min=torch.finfo(weights.dtype).tiny)
    return (weights / mean * _checked_rate(rate)).clamp(max=_checked_rate(threshold))


def edge_weights(graph: Graph, kind: Centrality) -> Tensor:
    """How readily GCA drops each edge: [e], 0 for those to the most central node and 1 on average.

    An edge is as important as the node it goes to, so its two directions differ.
    """
    return _weights(centrality(graph, kind)[graph.edge_index[1]])


def feature_weights(graph: Graph, kind: Centrality) -> Tensor:
    """How readily GCA drops each feature: [f], 0 for the one that central nodes have most of and 1 on average."""
    central = centrality(graph, kind)
    if graph.x.layout != torch.sparse_csr:
        return _weights(central @ graph.x.abs())
    # scipy sums in one order on every machine, which the atomic additions of a GPU do not.
    importance = abs(csr_to_scipy(graph.x)).T @ central.double().cpu().numpy()
    return _weights(torch.from_numpy(importance).to(graph.x.device))


def _weights(importance: Tensor) -> Tensor:
    """(max s - s) / (max s - mean s) with s = log ``importance``; 1 for all where all are alike.

    What has no importance at all (an isolated node's, a feature nobody has) counts as the least that is above 0.
    """
    if importance.numel() == 0:
        return importance.to(torch.float32)
    importance = importance.double()
    most = importance.max()
    least = importance.where(importance > 0, most).min()
    floor = torch.maximum(least, LEAST_SHARE * most).clamp(min=torch.finfo(torch.float64).tiny)
    s = torch.maximum(importance, floor).log()
    gap = s.max() - s
    return (gap / gap.mean()).where(gap.mean() > SAME, 1.0).to(torch.float32)


def centrality(graph: Graph, kind: Centrality) -> Tensor:
    """The importance of each node by the edges that come in: [n] float32, never negative.

    It is needed once a training, so it is computed on the CPU in float64: the same bits for every device.
    """
    source, target = graph.edge_index.cpu().numpy()
    match kind:
        case "degree":
            values = np.bincount(target, minlength=graph.n)
        case "pagerank":
            values = _pagerank(source, target, graph.n)
        case "eigenvector":
            values = _eigenvector(source, target, graph.n)
        case _:
            raise unknown("centrality", kind, get_args(Centrality))
    return torch.from_numpy(values).to(graph.x.device, torch.float32)


def _pagerank(source: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """Where a walker is found that follows a random edge, or, with probability 1 - DAMPING, starts again anywhere."""
    leaving = np.bincount(source, minlength=n)
    walk = sp.csr_array((1 / leaving[source], (target, source)), shape=(n, n))
    dangling = leaving == 0  # nowhere to go from there: the walker starts again
    rank = np.full(n, 1 / n)
    for _ in range(PAGERANK_STEPS):
        rank = DAMPING * (walk @ rank + rank[dangling].sum() / n) + (1 - DAMPING) / n
    return rank


def _eigenvector(source: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """The eigenvector of the greatest eigenvalue, of length 1.

    Of A + I, whose eigenvectors are those of A: in a bipartite graph -λ is an eigenvalue of A as well as λ, and the
    powers of A alone would swing between the two sides for ever.
    """
    shifted = sp.csr_array((np.ones(len(source)), (target, source)), shape=(n, n)) + sp.eye_array(n, format="csr")
    vector = np.full(n, n**-0.5)
    for _ in range(EIGENVECTOR_STEPS):
        last, vector = vector, shifted @ vector
        vector /= np.linalg.norm(vector)
        if np.abs(vector - last).max() < EIGENVECTOR_CHANGE:
            break
    return vector


def drop_edges(graph: Graph, rate: float, rng: torch.Generator) -> Graph:
    """The graph without a random share ``rate`` of its edges; an undirected edge goes in both directions or stays."""
    source, target = graph.edge_index
    once = torch.ones_like(source, dtype=torch.bool) if graph.directed else source < target
    edges = once.nonzero().squeeze(1)
    stays = edges[kept(uniform(len(edges), rate, edges.device), rng).bool()]
    # Given once, an undirected edge would have half its weight.
    weight = None if graph.edge_weight is None else graph.edge_weight[stays] * (1 if graph.directed else 2)
    return replace(graph, edge_index=graph.edge_index[:, stays], edge_weight=weight)


def mask_features(graph: Graph, rate: float, rng: torch.Generator) -> Graph:
    """The graph with a random share ``rate`` of its features set to 0, the same ones for all nodes.

    Sparse features stay sparse, with zeros stored where something was.
    """
    x = graph.x
    mask = kept(uniform(graph.n_features, rate, x.device), rng)
    if x.layout != torch.sparse_csr:
        return replace(graph, x=x * mask)
    values = x.values() * mask[x.col_indices()]
    return replace(graph, x=csr(x.crow_indices(), x.col_indices(), values, (graph.n, graph.n_features)))


def _checked_rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise UserError(f"A probability to be dropped must be between 0 and 1, not {rate}.")
    return rate
