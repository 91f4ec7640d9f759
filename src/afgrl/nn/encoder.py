"""AFGRL's networks: the encoder on precomputed propagated features, and the predictor."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from afgrl.nn.layers import FrozenBatchNorm, Normalization, norm_layer, padded_matmul, weight_matrix
from afgrl.ops.bn_prelu import FrozenNorm, fused_bn_prelu
from afgrl.ops.propagation import Propagated
from afgrl.ops.sparse.batches import SampledRows, SparseRows
from afgrl.ops.sparse.cpu import FactoredTable


class Encoder(nn.Module):
    """GCN layers, each followed by normalization and PReLU. The input of the first layer is already propagated."""

    def __init__(
        self, n_features: int, width: int, n_layers: int, normalization: Normalization, rng: torch.Generator
    ) -> None:
        super().__init__()
        widths = [n_features] + [width] * n_layers
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(weight_matrix(n_in, n_out, rng) for n_in, n_out in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n_out)) for _, n_out in pairs)
        self.norms = nn.ModuleList(norm_layer(normalization, n_out, momentum=0.01) for _, n_out in pairs)
        self.activations = nn.ModuleList(nn.PReLU() for _ in pairs)

    def forward(self, inputs: Propagated) -> Tensor:
        h: Tensor | FactoredTable | SparseRows | SampledRows = inputs.x
        for depth, (weight, bias, norm, activation) in enumerate(
            zip(self.weights, self.biases, self.norms, self.activations, strict=True)
        ):
            h = padded_matmul(h, weight)
            if depth > 0:
                h = inputs.adjacency @ h
            h = _activate(h, bias, norm, activation)
        assert isinstance(h, Tensor)
        return h


class Predictor(nn.Module):
    """q_θ: linear, normalization, PReLU, linear."""

    def __init__(self, width: int, hidden: int, normalization: Normalization, rng: torch.Generator) -> None:
        super().__init__()
        self.weight_in, self.weight_out = weight_matrix(width, hidden, rng), weight_matrix(hidden, width, rng)
        # 0.01 is the authors' initial value of both biases.
        self.bias_in = nn.Parameter(torch.full((hidden,), 0.01))
        self.bias_out = nn.Parameter(torch.full((width,), 0.01))
        self.norm = norm_layer(normalization, hidden, momentum=0.1)
        self.activation = nn.PReLU()

    def forward(self, h: Tensor) -> Tensor:
        hidden = _activate(h @ self.weight_in, self.bias_in, self.norm, self.activation)
        return torch.addmm(self.bias_out, hidden, self.weight_out)


@torch.no_grad()
def calibrate(module: nn.Module, inputs: Propagated | Tensor) -> Tensor:
    """Run ``module`` once, so that its frozen norms compute their statistics, and return its output."""
    norms = [part for part in module.modules() if isinstance(part, FrozenBatchNorm)]
    rows = inputs.shape[0] if isinstance(inputs, Tensor) else inputs.x.shape[0]
    for norm in norms:
        norm.training = rows > 1  # the variance of one row is undefined
    output = module(inputs)
    for norm in norms:
        norm.training = False
    return output


def _activate(h: Tensor, bias: Tensor, norm: nn.Module, activation: nn.Module) -> Tensor:
    """Bias, normalization and activation; one fused operation for a frozen norm."""
    if not isinstance(norm, FrozenBatchNorm) or norm.training:
        activated: Tensor = activation(norm(h + bias))
        return activated
    assert isinstance(activation, nn.PReLU)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    frozen = FrozenNorm(norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps)
    return fused_bn_prelu(h, bias, frozen, activation.weight)
