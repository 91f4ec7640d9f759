"""Layers that several networks share: initialization, normalization, activation, and an MLP."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.ops.sparse.batches import SampledRows, SparseRows
from afgrl.ops.sparse.cpu import FactoredTable

Normalization = Literal["frozen", "batch", "none"]
Activation = Literal["prelu", "relu", "rrelu"]


def weight_matrix(n_in: int, n_out: int, rng: torch.Generator) -> nn.Parameter:
    """[n_in, n_out] with Xavier initialization."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_in, n_out), generator=rng))


def dropout(h: Tensor, rate: float, rng: torch.Generator) -> Tensor:
    """Each entry is 0 with probability ``rate``; the others are scaled up, so that the expectation stays the same."""
    if not rate:
        return h
    return h * (torch.rand(h.shape, generator=rng, device=h.device) >= rate) / (1 - rate)


def padded_matmul(x: Tensor | FactoredTable | SparseRows | SampledRows, weight: Tensor) -> Tensor:
    """``x @ weight``; ``x`` may have zero columns at the end, which inputs on a GPU are padded with."""
    missing = x.shape[1] - weight.shape[0]
    return x @ (F.pad(weight, (0, 0, 0, missing)) if missing else weight)


class FrozenBatchNorm(nn.BatchNorm1d):
    """Batch normalization whose statistics are computed once, before training (``calibrate``), and then fixed.

    The authors' code switches to eval mode after its first step and never back. Its statistics are therefore those of
    one batch, blended with mean 0 and variance 1 by ``momentum``: nearly the identity, with a learned scale and shift.
    The paper's numbers depend on it (docs/deviations.md).
    """

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__(width, momentum=momentum)
        self.training = False

    def train(self, mode: bool = True) -> FrozenBatchNorm:
        return super().train(False)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization that uses the running statistics for a single row, whose variance is undefined."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def norm_layer(kind: Normalization, width: int, momentum: float) -> nn.Module:
    match kind:
        case "frozen":
            return FrozenBatchNorm(width, momentum)
        case "batch":
            return BatchNorm(width, momentum=momentum)
        case "none":
            return nn.Identity()


def activation_layer(kind: Activation | Literal["selu"]) -> nn.Module:
    match kind:
        case "prelu":
            return nn.PReLU()
        case "relu":
            return nn.ReLU()
        case "selu":
            return nn.SELU()
        case "rrelu":  # F.rrelu in eval mode, as GCA's authors call it: a leaky ReLU with the mean slope
            return nn.LeakyReLU((1 / 8 + 1 / 3) / 2)


class MLP(nn.Module):
    """Linear, activation, linear."""

    def __init__(self, n_in: int, hidden: int, n_out: int, activation: nn.Module, rng: torch.Generator) -> None:
        super().__init__()
        self.weight_in, self.bias_in = linear_parameters(n_in, hidden, rng)
        self.weight_out, self.bias_out = linear_parameters(hidden, n_out, rng)
        self.activation = activation

    def forward(self, h: Tensor) -> Tensor:
        hidden = self.activation(torch.addmm(self.bias_in, h, self.weight_in))
        return torch.addmm(self.bias_out, hidden, self.weight_out)


def linear_parameters(n_in: int, n_out: int, rng: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights [n_in, n_out] and biases [n_out] with the initialization of ``nn.Linear``, as in the authors' code."""
    bound = n_in**-0.5
    weight, bias = (torch.empty(shape).uniform_(-bound, bound, generator=rng) for shape in ((n_in, n_out), (n_out,)))
    return nn.Parameter(weight), nn.Parameter(bias)
