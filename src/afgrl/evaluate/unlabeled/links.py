"""Link prediction: whether vectors trained without some edges give their ends a higher cosine than other pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate.matrix import is_sparse
from afgrl.graph import Graph
from afgrl.ops.sparse.rows import unit_row_table

BLOCK_PAIRS = 4096  # whose vectors are in memory at once
FEWEST_HIDDEN = 20  # edges; the AUC of fewer says nothing
PAIRS_PER_EDGE = 10  # without an edge, per hidden edge: then most of the error is that of the hidden edges
MAX_DRAWS = 50  # rounds of drawing pairs; a graph in which they do not suffice is nearly complete


@dataclass(frozen=True, eq=False)
class HiddenEdges:
    graph: Graph  # without them
    positive: np.ndarray  # [2, p] ends of hidden edges
    negative: np.ndarray  # [2, q] pairs without an edge


@dataclass(frozen=True, eq=False)
class LinkScores:
    """How similar one kind of vectors makes the ends of hidden edges, and other pairs."""

    positive: np.ndarray  # [p] cosines of hidden edges
    negative: np.ndarray  # [q] of pairs without an edge

    @property
    def auc(self) -> float:
        """The probability that a hidden edge has a higher cosine than a pair without an edge, ties counting half: the
        area under the ROC curve (Hanley and McNeil 1982; for link prediction: Liben-Nowell and Kleinberg 2007)."""
        return float(self.placements()[0].mean())

    def placements(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each hidden edge the share of other pairs below it [p], and of each other pair the share of hidden edges
        above it [q]; ties count half."""
        p, q = len(self.positive), len(self.negative)
        ranks = rankdata(np.concatenate([self.positive, self.negative]))
        below = (ranks[:p] - rankdata(self.positive)) / q
        above = 1 - (ranks[p:] - rankdata(self.negative)) / p
        return below, above


def auc_difference_error(first: LinkScores, second: LinkScores) -> float:
    """The standard error of the difference of two AUCs on the same pairs (DeLong, DeLong and Clarke-Pearson 1988)."""
    squares = 0.0
    for one, other in zip(first.placements(), second.placements(), strict=True):
        squares += float(np.var(one - other, ddof=1)) / len(one)
    return squares**0.5


def hide_edges(graph: Graph, share: float, generator: np.random.Generator, most: int) -> HiddenEdges:
    """The graph without a random ``share`` of its edges, at most ``most`` of the hidden ones, and ten times as many
    random pairs of nodes that have no edge in the whole graph. Features and ids stay."""
    number, n_edges = _edge_numbers(graph)
    n_hidden = round(share * n_edges)
    if n_hidden < FEWEST_HIDDEN:
        least = math.ceil((FEWEST_HIDDEN - 0.5) / share)
        raise UserError(f"Link prediction needs at least {least} edges, but the graph has {n_edges:,}.")
    chosen = generator.choice(n_edges, n_hidden, replace=False)
    first = np.unique(number, return_index=True)[1]  # where each edge is stored first
    hidden = graph.edge_index.cpu().numpy()[:, first[chosen[:most]]]
    negative = non_edges(graph, PAIRS_PER_EDGE * hidden.shape[1], generator, np.arange(graph.n))
    if negative.shape[1] < hidden.shape[1]:
        raise UserError("Link prediction needs pairs of nodes without an edge, but nearly all nodes are linked.")
    return HiddenEdges(_without(graph, number, chosen, n_edges), hidden, negative)


def sample_edges(graph: Graph, share: float, generator: np.random.Generator) -> Graph:
    """The graph with a random ``share`` of its edges and all of its nodes."""
    number, n_edges = _edge_numbers(graph)
    dropped = generator.choice(n_edges, n_edges - round(share * n_edges), replace=False)
    return _without(graph, number, dropped, n_edges)


def link_scores(x: Tensor, positive: np.ndarray, negative: np.ndarray) -> LinkScores:
    """By vectors ``x`` [n, d], dense or CSR, of hidden edges [2, p] and of pairs without an edge [2, q]."""
    return LinkScores(pair_cosines(x, positive), pair_cosines(x, negative))


def pair_cosines(x: Tensor, pairs: np.ndarray) -> np.ndarray:
    """The cosine of the vectors ``x`` [n, d], dense or CSR, of each pair of nodes [2, p]: [p] float32."""
    unit = unit_row_table(x)
    rows = csr_to_scipy(unit) if is_sparse(unit) else unit
    found = []
    for start in range(0, pairs.shape[1], BLOCK_PAIRS):
        left, right = (rows[ends] for ends in pairs[:, start : start + BLOCK_PAIRS])
        product = left * right if isinstance(left, Tensor) else left.multiply(right)
        sums = product.sum(1)
        found.append(sums.cpu().numpy() if isinstance(sums, Tensor) else np.asarray(sums).ravel())
    return np.concatenate(found).astype(np.float32)


def _keys(graph: Graph, ends: np.ndarray) -> np.ndarray:
    """One number per pair of nodes; of an undirected graph, the same for both directions."""
    low, high = ends if graph.directed else (ends.min(0), ends.max(0))
    return np.asarray(low * graph.n + high)


def _edge_numbers(graph: Graph) -> tuple[np.ndarray, int]:
    """The number of the edge that each column of ``edge_index`` belongs to, [e], and how many edges there are."""
    number = np.unique(_keys(graph, graph.edge_index.cpu().numpy()), return_inverse=True)[1]
    return number, graph.n_edges


def _without(graph: Graph, number: np.ndarray, dropped: np.ndarray, n_edges: int) -> Graph:
    keeps = np.ones(n_edges, dtype=bool)
    keeps[dropped] = False
    kept = torch.from_numpy(keeps[number]).to(graph.edge_index.device)
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=weight)


def non_edges(graph: Graph, count: int, generator: np.random.Generator, nodes: np.ndarray) -> np.ndarray:
    """Pairs of different nodes that have no edge, both drawn uniformly from ``nodes``: [2, count], fewer if most of
    these nodes are linked; a pair may occur twice."""
    edges = np.unique(_keys(graph, graph.edge_index.cpu().numpy()))
    found = np.empty((2, 0), dtype=np.int64)
    for _ in range(MAX_DRAWS):
        drawn = nodes[generator.integers(0, len(nodes), (2, count))]
        keys = _keys(graph, drawn)
        place = np.searchsorted(edges, keys).clip(max=len(edges) - 1)
        found = np.concatenate([found, drawn[:, (drawn[0] != drawn[1]) & (edges[place] != keys)]], axis=1)
        if found.shape[1] >= count:
            break
    return found[:, :count]
