"""Augmentations of the compared methods: dropped edges, dropped features and shuffled nodes.

Drop probabilities are computed once per run; each training step draws masks from them. A mask has the shape of its
probabilities, so no tensor shape depends on random numbers and a step can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError, unknown
from afgrl.graph import Graph

Centrality = Literal["degree", "pagerank", "eigenvector"]

DAMPING = 0.85  # the usual damping factor of PageRank
PAGERANK_STEPS = 200  # each step reduces the error by the factor DAMPING: to 1e-14 in total
# Power iteration converges with the ratio of the two largest eigenvalues, which is almost 1 for a long chain; the last
# vector is used then.
EIGENVECTOR_STEPS, EIGENVECTOR_CHANGE = 2_000, 1e-12
MIN_IMPORTANCE = 1e-8  # relative to the largest; the logarithm of a smaller one would dwarf all other differences
MIN_GAP = 1e-6  # a smaller mean difference of logarithms is rounding error


def random_permutation(n: int, rng: torch.Generator) -> Tensor:
    """[n] int64 on the device of ``rng``; unlike ``torch.randperm`` it can be captured in a CUDA graph."""
    return torch.rand(n, device=rng.device, generator=rng).argsort()


def keep_mask(drop: Tensor, rng: torch.Generator) -> Tensor:
    """A mask in the shape of ``drop``: 0 with probability ``drop``, otherwise 1, drawn independently; float32."""
    return (torch.rand(drop.shape, generator=rng, device=drop.device) >= drop).to(torch.float32)


def drop_probabilities(weights: Tensor, rate: float, threshold: float = 0.7) -> Tensor:
    """Drop probabilities proportional to ``weights``, with mean ``rate`` before they are capped at ``threshold``.

    The cap prevents the least important entries from being dropped in nearly every view.
    """
    mean = weights.mean().clamp(min=torch.finfo(weights.dtype).tiny)
    return (weights / mean * _checked_probability(rate)).clamp(max=_checked_probability(threshold))


def edge_drop_weights(graph: Graph, kind: Centrality) -> Tensor:
    """GCA's relative drop probability of each edge: [e], mean 1, and 0 for the edges to the most central node.

    The importance of an edge is the centrality of its target, so the two directions of an edge differ.
    """
    return _drop_weights(centrality(graph, kind)[graph.edge_index[1]])


def feature_drop_weights(graph: Graph, kind: Centrality) -> Tensor:
    """GCA's relative drop probability of each feature: [f], mean 1, and 0 for the most important feature.

    The importance of a feature is the sum of its absolute values, weighted by the centrality of the nodes.
    """
    central = centrality(graph, kind)
    if graph.x.layout != torch.sparse_csr:
        return _drop_weights(central @ graph.x.abs())
    # scipy sums in a fixed order; the atomic additions of a GPU do not.
    importance = abs(csr_to_scipy(graph.x)).T @ central.double().cpu().numpy()
    return _drop_weights(torch.from_numpy(importance).to(graph.x.device))


def _drop_weights(importance: Tensor) -> Tensor:
    """(max s - s) / (max s - mean s) with s = log ``importance``; 1 everywhere if all importances are equal.

    An importance of 0 (an isolated node, an unused feature) is replaced by the smallest positive one.
    """
    if importance.numel() == 0:
        return importance.to(torch.float32)
    importance = importance.double()
    largest = importance.max()
    smallest = importance.where(importance > 0, largest).min()
    floor = torch.maximum(smallest, MIN_IMPORTANCE * largest).clamp(min=torch.finfo(torch.float64).tiny)
    s = torch.maximum(importance, floor).log()
    gap = s.max() - s
    return (gap / gap.mean()).where(gap.mean() > MIN_GAP, 1.0).to(torch.float32)


def centrality(graph: Graph, kind: Centrality) -> Tensor:
    """The centrality of each node by its incoming edges: [n] float32, at least 0.

    Computed on the CPU in float64, so that every device uses the same bits.
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
    """The stationary distribution of a walk that restarts at a random node with probability 1 - DAMPING."""
    out_degree = np.bincount(source, minlength=n)
    transition = sp.csr_array((1 / out_degree[source], (target, source)), shape=(n, n))
    dangling = out_degree == 0  # the walk restarts at nodes without outgoing edges
    rank = np.full(n, 1 / n)
    for _ in range(PAGERANK_STEPS):
        rank = DAMPING * (transition @ rank + rank[dangling].sum() / n) + (1 - DAMPING) / n
    return rank


def _eigenvector(source: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """The eigenvector of the largest eigenvalue, with length 1, by power iteration on A + I.

    A + I has the eigenvectors of A. Power iteration on A itself does not converge on a bipartite graph, where -λ is an
    eigenvalue too.
    """
    shifted = sp.csr_array((np.ones(len(source)), (target, source)), shape=(n, n)) + sp.eye_array(n, format="csr")
    vector = np.full(n, n**-0.5)
    for _ in range(EIGENVECTOR_STEPS):
        last, vector = vector, shifted @ vector
        vector /= np.linalg.norm(vector)
        if np.abs(vector - last).max() < EIGENVECTOR_CHANGE:
            break
    return vector


def _checked_probability(value: float) -> float:
    if not 0 <= value <= 1:
        raise UserError(f"A drop probability must be between 0 and 1, not {value}.")
    return value
