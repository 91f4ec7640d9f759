"""A trained encoder as a function of dense tensors, which is what an ONNX graph can represent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.methods import Method
from afgrl.methods.afgrl import AFGRLMethod
from afgrl.methods.bgrl import BGRLMethod
from afgrl.methods.dgi import DGIMethod
from afgrl.methods.gca import GCAMethod
from afgrl.methods.gmi import GMIMethod
from afgrl.methods.grace import GRACEMethod
from afgrl.methods.node_embedder import NodeEmbedderMethod
from afgrl.methods.parts.batch_inputs import SVD_LENGTH
from afgrl.methods.parts.spectral import SpectralFeatures
from afgrl.methods.random import RandomMethod
from afgrl.nn import GCN, Encoder
from afgrl.onnx.segments import segment_sum
from afgrl.ops.propagation import HOP_LENGTH
from afgrl.ops.propagation.columns import pagerank_average

MAX_COLUMNS = 512  # columns per SpMM: one message per edge with all columns of a wide table would not fit in memory


class NormalizedAdjacency:
    """S = D^-1/2 (A + I) D^-1/2 of edges [2, e] in both directions; equals ``gcn_norm``."""

    def __init__(self, edge_index: Tensor, n: int, edge_weight: Tensor | None = None) -> None:
        loops = torch.arange(n, device=edge_index.device)
        target, order = torch.cat([edge_index[1], loops]).sort()
        self.source = torch.cat([edge_index[0], loops])[order]
        degree = torch.zeros_like(loops).scatter_add(0, target, torch.ones_like(target))
        first = degree.cumsum(0) - degree
        self.position = torch.arange(target.shape[0], device=target.device) - first[target]
        self.n = n
        self.weight = None
        if edge_weight is None:
            self.scale = degree.to(torch.float32).rsqrt().unsqueeze(1)
        else:
            mean = edge_weight.sum() / torch.ones_like(edge_weight).sum()
            with_loops = torch.cat([edge_weight / mean, torch.ones_like(loops, dtype=torch.float32)])
            self.weight = with_loops[order].unsqueeze(1)
            self.scale = segment_sum(self.weight, self.position, n).rsqrt()

    def __matmul__(self, h: Tensor) -> Tensor:
        parts = (self.scale * h).split(MAX_COLUMNS, dim=1)
        sums = [segment_sum(self._messages(part), self.position, self.n) for part in parts]
        return self.scale * torch.cat(sums, dim=1)

    def _messages(self, h: Tensor) -> Tensor:
        sent = h.index_select(0, self.source)
        return sent if self.weight is None else self.weight * sent


class ExportableEncoder(nn.Module):
    """GCN layers: ``x`` [n, f], ``edge_index`` [2, e] and ``edge_weight`` [e] → embedding [n, d]."""

    def __init__(self, layers: Encoder | GCN, *, n_hops: int = 0, unit_sums: bool = False) -> None:
        super().__init__()
        self.layers, self.n_hops, self.unit_sums = layers, n_hops, unit_sums

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        adjacency = NormalizedAdjacency(edge_index, x.shape[0], edge_weight)
        if self.unit_sums:
            x = F.normalize(x, p=1.0)
        weights = self.layers.weights
        h = self._activate(0, self._first_product(adjacency, x))
        for depth in range(1, len(weights)):
            h = self._activate(depth, _propagate(adjacency, h, weights[depth]))
        return h

    def _first_product(self, adjacency: NormalizedAdjacency, x: Tensor) -> Tensor:
        """The propagated features times the weights of the first layer."""
        if self.n_hops:
            return self._multi_hop_product(adjacency, x)
        return _propagate(adjacency, x, self.layers.weights[0])

    def _multi_hop_product(self, adjacency: NormalizedAdjacency, x: Tensor) -> Tensor:
        """``[X | SX | … | SʰX] W`` with the rows of each block scaled to one length, block by block."""
        blocks = self.layers.weights[0].split(x.shape[1])
        total = HOP_LENGTH * F.normalize(x) @ blocks[0]
        for weight in blocks[1:]:
            x = adjacency @ x
            total = total + HOP_LENGTH * F.normalize(x) @ weight
        return total

    def _activate(self, depth: int, h: Tensor) -> Tensor:
        layers: Any = self.layers
        norm = layers.norms[depth]
        h = h + layers.biases[depth] if len(layers.biases) else h
        if isinstance(norm, nn.BatchNorm1d):  # not its forward, which depends on the number of rows
            h = F.batch_norm(h, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        else:
            h = norm(h)
        activated: Tensor = layers.activations[depth](h)
        return activated


class ExportableBatchEncoder(ExportableEncoder):
    """The default embedding: the encoder, then the vectors without training and the projection of all parts."""

    projection: Tensor | None

    def __init__(self, method: NodeEmbedderMethod) -> None:
        super().__init__(method.encoder, n_hops=method.settings.n_hops)
        self.settings, self.spectral = method.settings, method.spectral
        self.register_buffer("projection", None if method.settings.skip == "none" else method.projection)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        adjacency = NormalizedAdjacency(edge_index, x.shape[0], edge_weight)
        v = None if self.spectral is None else _directions(self.spectral, adjacency, x)
        if self.settings.input == "svd":
            assert v is not None
            weight = self.layers.weights[0]  # the encoder may read fewer directions than the embedding
            first = SVD_LENGTH * F.normalize(v[:, : weight.shape[0]]) @ weight
        elif self.settings.input == "own":
            first = HOP_LENGTH * F.normalize(x) @ self.layers.weights[0]
        else:
            first = self._first_product(adjacency, F.normalize(x))  # unit rows: each neighbor counts the same
        h = self._activate(0, first)
        if self.projection is None:
            return h
        assert v is not None
        untrained = [F.normalize(v[:, : self.settings.n_components])]
        if self.settings.skip == "svd+ppr":
            untrained.append(F.normalize(pagerank_average(untrained[0], _as_tensor(adjacency))))
        trained = len(untrained) ** 0.5 * F.normalize(h)
        return torch.cat([trained, *untrained], dim=1) @ self.projection


def _directions(spectral: SpectralFeatures, adjacency: NormalizedAdjacency, x: Tensor) -> Tensor:
    v: Tensor = spectral(x, _as_tensor(adjacency))
    return v


def _as_tensor(adjacency: NormalizedAdjacency) -> Any:
    """S for functions that are written for a CSR tensor and only compute ``S @ h``."""
    return adjacency


def _propagate(adjacency: NormalizedAdjacency, h: Tensor, weight: Tensor) -> Tensor:
    """``S h W``, with the product by S on the narrower side."""
    return adjacency @ (h @ weight) if weight.shape[1] < weight.shape[0] else (adjacency @ h) @ weight


def _gcn(method: Any) -> ExportableEncoder:
    return ExportableEncoder(method.encoder, unit_sums=method.settings.row_sums)


# How each method's encoder is exported. By exact class: a subclass may encode differently.
EXPORTERS: dict[type[Method], Callable[[Any], ExportableEncoder]] = {
    AFGRLMethod: lambda method: ExportableEncoder(method.encoder, n_hops=method.settings.n_hops),
    NodeEmbedderMethod: ExportableBatchEncoder,
    RandomMethod: lambda method: ExportableEncoder(method.encoder),
    BGRLMethod: _gcn,
    DGIMethod: _gcn,
    GCAMethod: _gcn,
    GMIMethod: _gcn,
    GRACEMethod: _gcn,
}


def exportable_encoder(method: Method) -> ExportableEncoder:
    """The trained encoder of a method that embeds nodes by features and edges alone."""
    if type(method) not in EXPORTERS:
        names = ", ".join(sorted(known.name for known in EXPORTERS))
        raise UserError(f"The method {method.name!r} cannot be exported to ONNX; possible methods: {names}.")
    return EXPORTERS[type(method)](method)
