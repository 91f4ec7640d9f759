"""The sum over all pairs from the matrix of all similarities."""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.pair_sums.penalties import Penalty


def pair_sum_reference(u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty, numbers: Tensor | None = None) -> Tensor:
    """As ``pair_sum``: []."""
    rows = torch.arange(len(u), device=u.device)
    own = rows[:, None] == (rows if numbers is None else numbers)
    values = penalty.value((u @ v.T).masked_fill(own, 0)).masked_fill(own, 0)  # [n, m]
    return weight @ values.sum(1)
