"""The graph as MVGRL sees it a second time: who is near by all walks, not by one edge.

Both diffusions are series ``sum_k c_k Sᵏ`` with coefficients that sum to 1, over the S of the whole project, so that
what differs between two methods is not how the graph is normalized. The table of n² numbers is never there: blocks of
its rows are computed and reduced to their greatest entries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import torch
from torch import Tensor

from afgrl.csr import csr, quiet_sparse
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops import smoothing

# The share of all coefficients that the last term stands for. No power of S is longer than 1, nor is the whole shorter
# (S has the eigenvalue 1), so the relative error of what is computed is of this size.
TRUNCATION = 1e-5
MOST_TERMS = 20_000  # enough for an alpha of .001
BLOCK_BYTES = 128 << 20  # of rows at a time; a product holds two such blocks


def personalized_pagerank(graph: Graph, alpha: float = 0.2, keep: int = 64) -> Tensor:
    """``α (I - (1 - α) S)⁻¹`` as an [n, n] CSR tensor: where walks end that stop with probability ``alpha`` a step.

    Each row has its ``keep`` greatest entries, rescaled to the sum of the whole row: a node then receives as much as
    without the cut, and how much does not depend on how far its walks spread. With ``keep >= n`` nothing is cut.
    The cut is made row by row, so the result need not be symmetric.
    """
    if not 0 < alpha <= 1:
        raise UserError(f"The probability alpha to stop must be above 0 and at most 1, not {alpha}.")
    return _diffusion(graph, _leading(alpha * (1 - alpha) ** k for k in itertools.count()), keep)


def heat(graph: Graph, time: float = 5.0, keep: int = 64) -> Tensor:
    """``exp(-t (I - S))``, which is ``e⁻ᵗ sum_k tᵏ/k! Sᵏ``, as an [n, n] CSR tensor: heat that has spread for ``time``.

    Rows are cut as those of ``personalized_pagerank``.
    """
    if not 0 < time < math.inf:
        raise UserError(f"The time of diffusion must be above 0 and finite, not {time}.")
    logarithms = (k * math.log(time) - time - math.lgamma(k + 1) for k in itertools.count())  # k! leaves every float
    return _diffusion(graph, _leading(map(math.exp, logarithms)), keep)


def _leading(coefficients: Iterable[float]) -> list[float]:
    """The first of coefficients that sum to 1, until hardly anything is left; the last one stands for the rest too."""
    taken, left = [], 1.0
    for coefficient in itertools.islice(coefficients, MOST_TERMS):
        taken.append(coefficient)
        left -= coefficient
        if left < TRUNCATION:
            taken[-1] += left
            return taken
    raise UserError(f"This diffusion has more than {MOST_TERMS:,} terms; take a larger alpha or a shorter time.")


def _diffusion(graph: Graph, coefficients: list[float], keep: int) -> Tensor:
    if keep < 1:
        raise UserError(f"At least 1 entry of each row must be kept, not {keep}.")
    n, spread = graph.n, _transposed_smoothing(graph)
    counts, columns, values = [], [], []
    for nodes in torch.arange(n, device=graph.x.device).split(max(1, BLOCK_BYTES // (4 * n))):
        greatest, column = _greatest(_series(spread, nodes, coefficients), min(keep, n))
        filled = greatest > 0  # fewer than ``keep`` can be reached
        counts.append(filled.sum(1))
        columns.append(column[filled])
        values.append(greatest[filled])
    crow = torch.nn.functional.pad(torch.cat(counts).cumsum(0), (1, 0))
    return csr(crow, torch.cat(columns), torch.cat(values), (n, n))


def _series(spread: Tensor, nodes: Tensor, coefficients: list[float]) -> Tensor:
    """The rows ``nodes`` of ``sum_k c_k Sᵏ``, as columns [n, b], by Horner's rule: z ← Sᵀ z + c_k E, last k first."""
    column = torch.arange(len(nodes), device=nodes.device)
    z = torch.zeros(spread.shape[0], len(nodes), device=nodes.device)
    z[nodes, column] = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        z = spread @ z
        z[nodes, column] += coefficient
    return z


def _greatest(z: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    """The ``keep`` greatest entries of each column of ``z`` [n, b] and where they are, ascending: both [b, keep]."""
    top = z.T.topk(keep, dim=1, sorted=False)
    column, order = top.indices.sort(dim=1)
    values = top.values.gather(1, order)
    return values * (z.sum(0) / values.sum(1))[:, None], column


def _transposed_smoothing(graph: Graph) -> Tensor:
    """Sᵀ: its powers times columns of the identity are rows of S's powers. It is S itself unless edges have a way."""
    s = smoothing(graph)
    if not graph.directed:
        return s
    with quiet_sparse():
        by_column = s.to_sparse_csc()
    return csr(by_column.ccol_indices(), by_column.row_indices(), by_column.values(), (graph.n, graph.n))
