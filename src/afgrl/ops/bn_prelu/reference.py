"""Bias, batch normalization with fixed statistics and PReLU by PyTorch's functions, and the type of the statistics."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F


class FrozenNorm(NamedTuple):
    """Batch normalization with fixed statistics."""

    mean: Tensor  # [d]
    variance: Tensor  # [d]
    gain: Tensor  # [d], learned
    shift: Tensor  # [d], learned
    eps: float


def fused_bn_prelu_reference(x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor) -> Tensor:
    """One layer after the other."""
    normal = F.batch_norm(x + bias, norm.mean, norm.variance, norm.gain, norm.shift, eps=norm.eps)
    return F.prelu(normal, slope)
