"""The sum over all pairs from the matrix of all similarities."""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.pair_sums.penalties import Penalty


def pair_sum_reference(u: Tensor, v: Tensor, weight: Tensor, penalty: Penalty) -> Tensor:
    """As ``pair_sum``: []."""
    own = torch.eye(len(u), dtype=torch.bool, device=u.device)
    values = penalty.value((u @ v.T).masked_fill(own, 0)).masked_fill(own, 0)  # [n, n]
    return weight @ values.sum(1)
