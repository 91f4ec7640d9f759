"""What learns: the encoder, the predictor, and the target that follows the encoder at a distance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.ops import (
    Links,
    Norm,
    Propagated,
    SparseBlocks,
    features,
    frozen_prelu,
    gather,
    gcn_weights,
    lerp_all,
    links,
)

Normalization = Literal["frozen", "batch", "layer", "none"]
Activation = Literal["prelu", "relu", "rrelu"]
Schedule = Literal["cosine", "constant", "authors"]


class Progress(NamedTuple):
    """How far training is; every schedule is a function of it."""

    step: int  # steps done
    total: int  # steps in all

    @property
    def fraction(self) -> float:
        return self.step / self.total


def target_decay(progress: Progress, momentum: float, schedule: Schedule) -> float:
    """How much of itself the target keeps in a step (the paper's τ).

    ``cosine`` rises once from ``momentum`` to 1, ``constant`` stays. ``authors`` is what the authors' code
    does: its counter runs once per parameter tensor, five times a step, through a cosine of 5,000, so the
    decay swings between ``momentum`` and 1 with a period of 2,000 steps, however long training is.
    """
    if schedule == "constant":
        return momentum
    angle = math.pi * (progress.fraction if schedule == "cosine" else progress.step / 1000)
    return 1 - (1 - momentum) * (math.cos(angle) + 1) / 2


@torch.no_grad()
def follow(target: nn.Module, online: nn.Module, decay: float) -> None:
    """ξ ← decay·ξ + (1 - decay)·θ, for parameters only, as BYOL and the authors do."""
    lerp_all(list(target.parameters()), list(online.parameters()), 1 - decay)


class FrozenBatchNorm(nn.BatchNorm1d):
    """Batch norm whose statistics are taken once, from the untrained network, and then held.

    The authors' code evaluates after its first step and never returns to training mode, so that its
    statistics are those of one batch blended with (0, 1) by ``momentum``: nearly the identity with a learned
    scale and shift. The paper's numbers rest on it (docs/deviations.md).
    """

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__(width, momentum=momentum)
        self.training = False

    def train(self, mode: bool = True) -> FrozenBatchNorm:
        return super().train(False)


class BatchNorm(nn.BatchNorm1d):
    """Batch norm that takes a batch of one row as well, by what it saw before."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


@torch.no_grad()
def calibrate(module: nn.Module, inputs: Propagated | Tensor) -> Tensor:
    """Run ``module`` once in which its frozen norms take their statistics, and return what it gave."""
    norms = [part for part in module.modules() if isinstance(part, FrozenBatchNorm)]
    rows = inputs.shape[0] if isinstance(inputs, Tensor) else inputs.x.shape[0]
    for norm in norms:
        norm.training = rows > 1  # the spread of one row is not defined
    output = module(inputs)
    for norm in norms:
        norm.training = False
    return output


def norm_layer(kind: Normalization, width: int, momentum: float) -> nn.Module:
    match kind:
        case "frozen":
            return FrozenBatchNorm(width, momentum)
        case "batch":
            return BatchNorm(width, momentum=momentum)
        case "layer":
            return nn.LayerNorm(width)
        case "none":
            return nn.Identity()


def activation_layer(kind: Activation) -> nn.Module:
    match kind:
        case "prelu":
            return nn.PReLU()
        case "relu":
            return nn.ReLU()
        case "rrelu":  # as F.rrelu outside of training, which is how GCA's authors call it: the mean slope
            return nn.LeakyReLU((1 / 8 + 1 / 3) / 2)


def weight_matrix(n_in: int, n_out: int, rng: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_in, n_out), generator=rng))


def _activate(h: Tensor, bias: Tensor, norm: nn.Module, activation: nn.Module) -> Tensor:
    if not isinstance(norm, FrozenBatchNorm) or norm.training:
        activated: Tensor = activation(norm(h + bias))
        return activated
    assert isinstance(activation, nn.PReLU)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    frozen = Norm(norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps)
    return frozen_prelu(h, bias, frozen, activation.weight)


def product(x: Tensor | SparseBlocks, weight: Tensor) -> Tensor:
    """``x @ weight`` where ``x`` may have columns of zeros at its end (``propagate`` appends them on a GPU)."""
    missing = x.shape[1] - weight.shape[0]
    return x @ (F.pad(weight, (0, 0, 0, missing)) if missing else weight)


class Encoder(nn.Module):
    """GCN layers, each followed by a norm and PReLU. The first layer's smoothing is already in its input."""

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
        h: Tensor | SparseBlocks = inputs.x
        for depth, (weight, bias, norm, activation) in enumerate(
            zip(self.weights, self.biases, self.norms, self.activations, strict=True)
        ):
            h = product(h, weight)
            if depth > 0:
                h = inputs.adjacency @ h
            h = _activate(h, bias, norm, activation)
        assert isinstance(h, Tensor)
        return h


class Predictor(nn.Module):
    """q_θ: linear, norm, PReLU, linear."""

    def __init__(self, width: int, hidden: int, normalization: Normalization, rng: torch.Generator) -> None:
        super().__init__()
        self.weight_in, self.weight_out = weight_matrix(width, hidden, rng), weight_matrix(hidden, width, rng)
        # .01 is the authors' start of both biases.
        self.bias_in = nn.Parameter(torch.full((hidden,), 0.01))
        self.bias_out = nn.Parameter(torch.full((width,), 0.01))
        self.norm = norm_layer(normalization, hidden, momentum=0.1)
        self.activation = nn.PReLU()

    def forward(self, h: Tensor) -> Tensor:
        hidden = _activate(h @ self.weight_in, self.bias_in, self.norm, self.activation)
        return torch.addmm(self.bias_out, hidden, self.weight_out)


class GCNInputs(NamedTuple):
    """What the compared methods' encoders read; AFGRL itself needs no messages after its first product."""

    x: Tensor | SparseBlocks  # [n, f]
    links: Links  # the edges and a loop at each node
    weight: Tensor  # [e] of D^-1/2 (A + I) D^-1/2


def gcn_inputs(graph: Graph, *, to_sum_one: bool) -> GCNInputs:
    found = links(graph)
    return GCNInputs(features(graph, to_sum_one=to_sum_one), found, gcn_weights(found))


class GCN(nn.Module):
    """GCN layers ``act(norm(S(XW) + b))`` over links whose weights come with each call."""

    def __init__(
        self, widths: Sequence[int], activation: Activation, normalization: Normalization, rng: torch.Generator
    ) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(weight_matrix(n_in, n_out, rng) for n_in, n_out in pairs)
        # Batch norm would take any bias away again.
        biased = pairs if normalization != "batch" else []
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n_out)) for _, n_out in biased)
        self.norms = nn.ModuleList(norm_layer(normalization, n_out, momentum=0.01) for _, n_out in pairs)
        self.activations = nn.ModuleList(activation_layer(activation) for _ in pairs)

    def forward(self, inputs: GCNInputs, weight: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        """With other weights of the links than the graph's own, and with some features only (``kept``, 1 or 0)."""
        h: Tensor | SparseBlocks = inputs.x
        along = inputs.weight if weight is None else weight
        for depth, matrix in enumerate(self.weights):
            # A feature that is masked for all nodes is a row of the weights that counts nothing.
            messages = product(h, matrix if kept is None or depth else kept.unsqueeze(1) * matrix)
            h = self.activate(depth, gather(inputs.links, along, messages))
        assert isinstance(h, Tensor)
        return h

    def activate(self, depth: int, h: Tensor) -> Tensor:
        """What follows the messages of a layer."""
        activated: Tensor = self.activations[depth](self.norms[depth](h + self.biases[depth] if self.biases else h))
        return activated


def shuffled(n: int, rng: torch.Generator) -> Tensor:
    """A random order of n nodes, without a shape that follows the data, so that it can be recorded."""
    return torch.rand(n, device=rng.device, generator=rng).argsort()


class MLP(nn.Module):
    """Linear, activation, linear."""

    def __init__(self, n_in: int, hidden: int, n_out: int, activation: nn.Module, rng: torch.Generator) -> None:
        super().__init__()
        self.weight_in, self.bias_in = _linear(n_in, hidden, rng)
        self.weight_out, self.bias_out = _linear(hidden, n_out, rng)
        self.activation = activation

    def forward(self, h: Tensor) -> Tensor:
        hidden = self.activation(torch.addmm(self.bias_in, h, self.weight_in))
        return torch.addmm(self.bias_out, hidden, self.weight_out)


def _linear(n_in: int, n_out: int, rng: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights [n_in, n_out] and biases as ``nn.Linear`` draws them, which is what the authors of these methods use."""
    bound = n_in**-0.5
    weight, bias = (torch.empty(shape).uniform_(-bound, bound, generator=rng) for shape in ((n_in, n_out), (n_out,)))
    return nn.Parameter(weight), nn.Parameter(bias)
