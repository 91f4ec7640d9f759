"""Graph diffusion, the second view of MVGRL: personalized PageRank and the heat kernel.

Both are series ``sum_k c_k Sᵏ`` whose coefficients sum to 1, over the same normalized adjacency S as every other
method, so that methods do not differ in the normalization of the graph. The dense [n, n] matrix never exists: blocks
of rows are computed and reduced to their largest entries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import torch
from torch import Tensor

from afgrl.csr import csr_tensor, no_csr_warnings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.propagation.adjacency import gcn_norm

# The coefficients after the last computed term sum to less than this. Powers of S have norm at most 1 and the series
# has norm 1 (S has the eigenvalue 1), so it also bounds the relative error.
TRUNCATION = 1e-5
MAX_TERMS = 20_000  # enough for alpha = 0.001
BLOCK_BYTES = 128 << 20  # per block of rows; a product holds two blocks


def personalized_pagerank(graph: Graph, alpha: float = 0.2, keep: int = 64) -> Tensor:
    """``α (I - (1 - α) S)⁻¹`` as an [n, n] CSR tensor, with the ``keep`` largest entries of each row.

    The remaining entries are rescaled to the sum of the full row, so that a node receives as much as without the
    truncation. The truncation is by row, so the result need not be symmetric.
    """
    if not 0 < alpha <= 1:
        raise UserError(f"The restart probability alpha must be above 0 and at most 1, not {alpha}.")
    return _diffusion(graph, _leading(alpha * (1 - alpha) ** k for k in itertools.count()), keep)


def heat(graph: Graph, time: float = 5.0, keep: int = 64) -> Tensor:
    """The heat kernel ``exp(-t (I - S)) = e⁻ᵗ sum_k tᵏ/k! Sᵏ`` as an [n, n] CSR tensor.

    Rows are truncated as in ``personalized_pagerank``.
    """
    if not 0 < time < math.inf:
        raise UserError(f"The diffusion time must be above 0 and finite, not {time}.")
    logarithms = (k * math.log(time) - time - math.lgamma(k + 1) for k in itertools.count())  # k! would overflow
    return _diffusion(graph, _leading(map(math.exp, logarithms)), keep)


def _leading(coefficients: Iterable[float]) -> list[float]:
    """The first coefficients of a series that sums to 1; the last one includes the truncated remainder."""
    leading, remainder = [], 1.0
    for coefficient in itertools.islice(coefficients, MAX_TERMS):
        leading.append(coefficient)
        remainder -= coefficient
        if remainder < TRUNCATION:
            leading[-1] += remainder
            return leading
    raise UserError(f"The diffusion needs more than {MAX_TERMS:,} terms; use a larger alpha or a shorter time.")


def _diffusion(graph: Graph, coefficients: list[float], keep: int) -> Tensor:
    if keep < 1:
        raise UserError(f"keep must be at least 1 entry per row, not {keep}.")
    n, transposed = graph.n, _transposed_gcn_norm(graph)
    counts, columns, values = [], [], []
    for nodes in torch.arange(n, device=graph.x.device).split(max(1, BLOCK_BYTES // (4 * n))):
        largest, column = _largest(_series(transposed, nodes, coefficients), min(keep, n))
        nonzero = largest > 0  # a node may reach fewer than ``keep`` nodes
        counts.append(nonzero.sum(1))
        columns.append(column[nonzero])
        values.append(largest[nonzero])
    crow = torch.nn.functional.pad(torch.cat(counts).cumsum(0), (1, 0))
    return csr_tensor(crow, torch.cat(columns), torch.cat(values), (n, n))


def _series(transposed: Tensor, nodes: Tensor, coefficients: list[float]) -> Tensor:
    """The rows ``nodes`` of ``sum_k c_k Sᵏ``, as columns [n, b], by Horner's rule: z ← Sᵀ z + c_k E, last k first."""
    column = torch.arange(len(nodes), device=nodes.device)
    z = torch.zeros(transposed.shape[0], len(nodes), device=nodes.device)
    z[nodes, column] = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        z = transposed @ z
        z[nodes, column] += coefficient
    return z


def _largest(z: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    """The ``keep`` largest entries of each column of ``z`` [n, b], rescaled to its sum, and their ascending indices."""
    top = z.T.topk(keep, dim=1, sorted=False)
    column, order = top.indices.sort(dim=1)
    values = top.values.gather(1, order)
    return values * (z.sum(0) / values.sum(1))[:, None], column


def _transposed_gcn_norm(graph: Graph) -> Tensor:
    """Sᵀ: its powers times columns of the identity are rows of S's powers. S is symmetric for an undirected graph."""
    s = gcn_norm(graph)
    if not graph.directed:
        return s
    with no_csr_warnings():
        by_column = s.to_sparse_csc()
    return csr_tensor(by_column.ccol_indices(), by_column.row_indices(), by_column.values(), (graph.n, graph.n))
