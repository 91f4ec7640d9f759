"""The loss over positive pairs, without gathering a row per pair."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import csr


def pair_matrix(src: Tensor, dst: Tensor, n: int) -> Tensor:
    """M + Mᵀ as an [n, n] CSR tensor, where M holds a one for each pair; an entry of both counts twice."""
    keys, counts = torch.unique(torch.cat([src * n + dst, dst * n + src]), return_counts=True)
    crow = torch.cat([keys.new_zeros(1), torch.bincount(keys // n, minlength=n).cumsum(0)])
    return csr(crow, keys % n, counts.to(torch.float32), (n, n))


def pair_loss(
    z: Tensor, t: Tensor, matrix: Tensor, n_pairs: int, *, over: Literal["pairs", "nodes"] = "pairs"
) -> Tensor:
    """Squared distance of unit prediction and unit target, both ways, summed over pairs; then their mean.

    For a pair (i, j) the two directions give ``(2 - 2 cos(z_i, t_j)) + (2 - 2 cos(z_j, t_i))``. Summed over all
    pairs that is ``4 |M| - 2 <P, (M + Mᵀ) T>`` with unit rows P of ``z`` and T of ``t``: one sparse product,
    of which no gradient is needed. ``over`` divides by the number of pairs (the authors' code) or of nodes
    (equation 3 of the paper, up to its constant).
    """
    with torch.no_grad():
        attraction = matrix @ F.normalize(t)
    total = 4 * n_pairs - 2 * (F.normalize(z) * attraction).sum()
    return total / max(n_pairs if over == "pairs" else z.shape[0], 1)
