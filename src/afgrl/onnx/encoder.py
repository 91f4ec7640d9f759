"""A trained encoder as a function of plain tensors, which is what an ONNX graph can hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.methods import Method
from afgrl.methods.afgrl import AFGRLMethod
from afgrl.methods.bgrl import BGRLMethod
from afgrl.methods.dgi import DGIMethod
from afgrl.methods.gmi import GMIMethod
from afgrl.methods.grace import GRACEMethod
from afgrl.methods.random import RandomMethod
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.nn import GCN, Encoder
from afgrl.onnx.sums import sum_runs
from afgrl.ops.propagate import HOP_LENGTH

COLUMNS = 512  # of messages that are there at a time: of a wide table one for each edge would not fit


class Smoothing:
    """S = D^-1/2 (A + I) D^-1/2 of edges [2, e] in both directions, as ``ops.smoothing`` has it."""

    def __init__(self, edge_index: Tensor, n: int, edge_weight: Tensor | None = None) -> None:
        loops = torch.arange(n, device=edge_index.device)
        target, order = torch.cat([edge_index[1], loops]).sort()
        self.source = torch.cat([edge_index[0], loops])[order]
        degree = torch.zeros_like(loops).scatter_add(0, target, torch.ones_like(target))
        first = degree.cumsum(0) - degree
        self.place = torch.arange(target.shape[0], device=target.device) - first[target]
        self.n = n
        self.weight = None
        if edge_weight is None:
            self.scale = degree.to(torch.float32).rsqrt().unsqueeze(1)
        else:
            usual = edge_weight.sum() / torch.ones_like(edge_weight).sum()
            looped = torch.cat([edge_weight / usual, torch.ones_like(loops, dtype=torch.float32)])
            self.weight = looped[order].unsqueeze(1)
            self.scale = sum_runs(self.weight, self.place, n).rsqrt()

    def __matmul__(self, h: Tensor) -> Tensor:
        parts = (self.scale * h).split(COLUMNS, dim=1)
        sums = [sum_runs(self._messages(part), self.place, self.n) for part in parts]
        return self.scale * torch.cat(sums, dim=1)

    def _messages(self, h: Tensor) -> Tensor:
        sent = h.index_select(0, self.source)
        return sent if self.weight is None else self.weight * sent


class PlainEncoder(nn.Module):
    """GCN layers over ``x`` [n, f], ``edge_index`` [2, e] and ``edge_weight`` [e]: the vectors [n, d]."""

    def __init__(self, layers: Encoder | GCN, *, n_hops: int = 0, to_sum_one: bool = False) -> None:
        super().__init__()
        self.layers, self.n_hops, self.to_sum_one = layers, n_hops, to_sum_one

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        smoothing = Smoothing(edge_index, x.shape[0], edge_weight)
        if self.to_sum_one:
            x = F.normalize(x, p=1.0)
        weights = self.layers.weights
        h = self._activate(0, self._hops(smoothing, x) if self.n_hops else _smooth_product(smoothing, x, weights[0]))
        for depth in range(1, len(weights)):
            h = self._activate(depth, _smooth_product(smoothing, h, weights[depth]))
        return h

    def _hops(self, smoothing: Smoothing, x: Tensor) -> Tensor:
        """``[X | SX | … | SʰX] W`` with the rows of each block at one length, block by block."""
        blocks = self.layers.weights[0].split(x.shape[1])
        total = HOP_LENGTH * F.normalize(x) @ blocks[0]
        for weight in blocks[1:]:
            x = smoothing @ x
            total = total + HOP_LENGTH * F.normalize(x) @ weight
        return total

    def _activate(self, depth: int, h: Tensor) -> Tensor:
        layers: Any = self.layers
        norm = layers.norms[depth]
        h = h + layers.biases[depth] if len(layers.biases) else h
        if isinstance(norm, nn.BatchNorm1d):  # not by its forward, which asks how many rows there are
            h = F.batch_norm(h, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        else:
            h = norm(h)
        activated: Tensor = layers.activations[depth](h)
        return activated


def _smooth_product(smoothing: Smoothing, h: Tensor, weight: Tensor) -> Tensor:
    """``S h W``, smoothed where it is narrower."""
    return smoothing @ (h @ weight) if weight.shape[1] < weight.shape[0] else (smoothing @ h) @ weight


def plain_encoder(method: Method) -> PlainEncoder:
    """The trained encoder of a method, where it has one that needs nothing but features and edges."""
    match method:
        case AFGRLMethod():
            return PlainEncoder(method.encoder, n_hops=method.config.n_hops or 0)
        case RandomMethod():
            return PlainEncoder(method.encoder)
        case BGRLMethod() | DGIMethod() | GMIMethod() | GRACEMethod():
            return PlainEncoder(method.encoder, to_sum_one=method.config.row_sums)
        case SupervisedGCNMethod():
            return PlainEncoder(_first_network(method), to_sum_one=method.config.row_sums)
    raise UserError(
        f"The method {method.name!r} has no encoder that ONNX could hold; those of afgrl, bgrl, dgi, gca, gmi, grace, "
        "random and supervised_gcn can be exported."
    )


def _first_network(method: SupervisedGCNMethod) -> GCN:
    """The hidden layer of the first split's network."""
    d = method.config.n_components
    layer = GCN([method.size.n_features, d], "relu", "none", torch.Generator())
    layer.weights[0].data, layer.biases[0].data = method.kept["first"][:, :d], method.kept["first_bias"][:d]
    return layer
