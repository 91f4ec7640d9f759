"""Measures without labels that were tried for the verdict of `afgrl quality` and did not help (docs/quality.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.evaluate.matrix import is_sparse
from afgrl.evaluate.unlabeled.links import non_edges
from afgrl.graph import Graph
from afgrl.ops.sparse.rows import unit_row_table

BLOCK_PAIRS = 4096  # whose features are in memory at once
MATCHED_PER_EDGE = 10  # pairs per hidden edge, whose nodes are as popular: few edges are compared with many


def matched_pairs(graph: Graph, positive: np.ndarray, generator: np.random.Generator, most: int) -> np.ndarray:
    """Degree-corrected pairs without an edge, [2, at most ``most``], for hidden edges ``positive`` [2, p].

    A node is drawn as often as it is an end of a hidden edge, so that popular nodes do not give the edges away (Aiyappa
    et al., "Implicit degree bias in the link prediction task", 2024). There may be none.
    """
    return non_edges(graph, min(most, MATCHED_PER_EDGE * positive.shape[1]), generator, positive.ravel())


def feature_agreement(x: Tensor, neighbors: Tensor) -> float:
    """The mean cosine of the features ``x`` [n, f], dense or CSR, of each node and its neighbors [n, k].

    Rows are scaled to length 1 and their mean m is subtracted, so that 0 is what unrelated nodes have:
    mean of <u_i - m, u_j - m> / (|u_i - m| |u_j - m|). Nodes whose features are all 0 or all the mean are left out.
    The numeric assortativity of Newman (2003) with the directions of features for one number, on the graph of nearest
    neighbors; vectors that have forgotten the features are near 0.
    """
    unit = unit_row_table(x)
    rows: Any = csr_to_scipy(unit) if is_sparse(unit) else unit.cpu().numpy()
    described = np.asarray(abs(rows).sum(1)).ravel() > 0
    if not described.any():
        return 0.0
    mean = np.asarray(rows[described].mean(0), dtype=np.float64).ravel()
    along = np.asarray(rows @ mean, dtype=np.float64).ravel()  # <u_i, m>
    squares = described - 2 * along + mean @ mean  # |u_i - m|², since |u_i| is 1 or 0
    known = described & (squares > 1e-6)
    first = np.repeat(np.arange(len(neighbors)), neighbors.shape[1])
    second = neighbors.flatten().cpu().numpy()
    both = known[first] & known[second]
    first, second = first[both], second[both]
    if not len(first):
        return 0.0
    products = _products(rows, first, second) - along[first] - along[second] + mean @ mean
    return float((products / np.sqrt(squares[first] * squares[second])).mean())


def _products(rows: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The inner products of pairs of rows, dense or CSR."""
    found = []
    for start in range(0, len(first), BLOCK_PAIRS):
        left, right = (rows[ends[start : start + BLOCK_PAIRS]] for ends in (first, second))
        product = left * right if isinstance(left, np.ndarray) else left.multiply(right)
        found.append(np.asarray(product.sum(1), dtype=np.float64).ravel())
    return np.concatenate(found)
