"""Time from a graph in memory to its vectors: AFGRL's default, AFGRL in full batches, and PyG's Deep Graph Infomax.

All run one after another in one process, so that their ratios mean something. The default runs completely, twice: the
first run also compiles kernels. The others run for a few epochs and are extrapolated, since they take minutes to hours
on a CPU.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor, nn

from afgrl import DEFAULT_METHOD
from afgrl.config import resolve
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.positive_settings import LARGE
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state

DGI_EPOCHS, DGI_WIDTH, DGI_MEASURED = 300, 512, 3
DGI_BYTES = 4 << 30  # of dense features: beyond it, Deep Graph Infomax is not measured


def default_times(graph: Graph, device: torch.device) -> dict[str, Any]:
    """Seconds of each part of the default, and of the others where they could be measured."""
    first = method_seconds(DEFAULT_METHOD, graph, device)
    own = method_seconds(DEFAULT_METHOD, graph, device)
    total = sum(own.values())
    full = _full_batch_seconds(graph, device)
    dgi = _dgi_seconds(graph, device) if 4 * graph.n * graph.n_features <= DGI_BYTES else None
    return {
        "nodes": graph.n, **own, "seconds": total, "first_seconds": sum(first.values()),
        "full_batch_seconds": full, "full_batch_ratio": full / total,
        "dgi_seconds": dgi, "dgi_ratio": None if dgi is None else dgi / total,
    }  # fmt: skip


def method_seconds(method: str, graph: Graph, device: torch.device, **settings: Any) -> dict[str, float]:
    resolved = resolve(method_class(method).settings_class, settings, graph=graph)
    moments = [time.perf_counter()]
    state, inputs = initial_state(method, resolved, graph, device)
    _wait(device, moments)
    training_loop(state, inputs)
    _wait(device, moments)
    state.method.embed(inputs).cpu()
    _wait(device, moments)
    names = ("preparation", "training", "embedding")
    return {name: end - begin for name, begin, end in zip(names, moments, moments[1:], strict=False)}


def _wait(device: torch.device, moments: list[float]) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    moments.append(time.perf_counter())


def _full_batch_seconds(graph: Graph, device: torch.device) -> float:
    """Of all epochs, extrapolated from a few, with as many refreshes per epoch as in a whole run."""
    settings = resolve(AFGRLSettings, graph=graph)
    few = (1 if graph.n > LARGE else 2) * settings.refresh_every
    own = method_seconds("afgrl", graph, device, epochs=few)
    per_epoch = own["training"] / few
    if device.type == "cuda":  # the first epochs compile kernels and capture a CUDA graph: compare two longer runs
        short, long = (method_seconds("afgrl", graph, device, epochs=count * few)["training"] for count in (4, 12))
        per_epoch = (long - short) / (8 * few)
    return own["preparation"] + own["embedding"] + settings.epochs * per_epoch


class _Encoder(nn.Module):
    """As in PyG's example of Deep Graph Infomax."""

    def __init__(self, n_features: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.conv, self.activation = GCNConv(n_features, DGI_WIDTH), nn.PReLU(DGI_WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        activated: Tensor = self.activation(self.conv(x, edge_index))
        return activated


def _dgi_seconds(graph: Graph, device: torch.device) -> float:
    from torch_geometric.nn import DeepGraphInfomax

    x, edges = graph.x.to_dense().to(device), graph.edge_index.to(device)
    model = DeepGraphInfomax(
        hidden_channels=DGI_WIDTH,
        encoder=_Encoder(graph.n_features),
        summary=lambda z, *rest: z.mean(dim=0).sigmoid(),
        corruption=lambda x, edge_index: (x[torch.randperm(len(x), device=x.device)], edge_index),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    durations = []
    for _ in range(DGI_MEASURED + 1):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = model.loss(*model(x, edges))
        loss.backward()
        optimizer.step()
        loss.item()  # waits for a GPU
        durations.append(time.perf_counter() - started)
    return DGI_EPOCHS * statistics.median(durations[1:])
