"""The loss over positive pairs, term by term, and the pair matrix that all versions read."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.sparse.matrix import SparseMatrix

Over = Literal["pairs", "nodes"]


class Pull(NamedTuple):
    """What constant targets and pairs contribute to the loss, as one row per node."""

    rows: Tensor  # [n, d] (M + Mᵀ) T, times n / (number of pairs or of nodes)
    offset: Tensor  # [] the loss if every prediction were orthogonal to its row


def pair_matrix(src: Tensor, dst: Tensor, n: int, weight: Tensor | None = None) -> SparseMatrix:
    """The [n, n] matrix M with an entry ``weight[p]`` (1 by default) at (src[p], dst[p]), ``src`` ascending.

    Its sizes follow from the number of candidate pairs, not from how many are positive: a rejected candidate has
    weight 0. So a GPU never has to report a count to the host.
    """
    values = torch.ones(len(src), device=src.device) if weight is None else weight.to(torch.float32)
    return SparseMatrix.from_coo(src, dst, (n, n), values)


def positive_pair_loss_reference(z: Tensor, t: Tensor, matrix: SparseMatrix, *, over: Over = "pairs") -> Tensor:
    """Sums a term for each pair in both directions."""
    weight, order = matrix.explicit_values, matrix.order_t
    directions = (matrix.rows, matrix.indices, weight), (matrix.indices[order], matrix.indices_t, weight[order])
    total = z.new_zeros(())
    for node, other, value in directions:
        total = total + (value * (2 - 2 * F.cosine_similarity(z[node], t.detach()[other]))).sum()
    return total / divisor(weight.sum(), matrix.shape[0], over)


def pull_reference(t: Tensor, matrix: SparseMatrix) -> Tensor:
    """(M + Mᵀ) T with unit rows T of ``t``, pair by pair: [n, d]."""
    unit, weight = F.normalize(t), matrix.explicit_values.unsqueeze(1)
    src, dst = matrix.rows.long(), matrix.indices.long()
    return torch.zeros_like(t).index_add_(0, src, weight * unit[dst]).index_add_(0, dst, weight * unit[src])


def divisor(count: Tensor, n: int, over: Over) -> Tensor:
    """The number of pairs, at least 1, or the number of nodes: []."""
    return count.clamp(min=1) if over == "pairs" else torch.full_like(count, n)
