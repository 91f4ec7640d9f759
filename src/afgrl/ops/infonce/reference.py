"""InfoNCE from the matrix of all similarities."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce_reference(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """The loss as it is usually written: []."""
    n = z1.shape[0]
    unit = F.normalize(torch.cat([z1, z2]))
    similarity = unit @ unit.T / temperature  # [2n, 2n]
    partner = similarity.diagonal(n).repeat(2)
    own = torch.eye(2 * n, dtype=torch.bool, device=unit.device)
    return (similarity.masked_fill(own, -torch.inf).logsumexp(1) - partner).mean()
