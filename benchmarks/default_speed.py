"""Time from a graph in memory to its vectors: the default recipe, full batches, and PyG's Deep Graph Infomax.

python -m benchmarks.default_speed cs photo pubmed --data-dir DIR      # → results/default-speed.json

The default recipe runs completely. Full batches (the former default) and DGI (300 epochs, 512 wide) run for a few
epochs and are extrapolated, since they take minutes to hours. All three run one after another in one process on one
machine, so that their ratios mean something; absolute times on a shared CPU do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import DeepGraphInfomax, GCNConv

from afgrl.config import resolve
from afgrl.data import load
from afgrl.graph import Graph
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS

DGI_EPOCHS, DGI_WIDTH, DGI_MEASURED = 300, 512, 3
FULL_MEASURED = 11  # epochs: three refreshes of positives, as many per epoch as in a whole run


def afgrl_seconds(graph: Graph, device: torch.device, **settings: Any) -> float:
    """Preparation, training and embedding."""
    resolved = resolve(AFGRLSettings, settings, graph=graph)
    started = time.perf_counter()
    state, inputs = initial_state("afgrl", resolved, graph, device)
    training_loop(state, inputs)
    state.method.embed(inputs).cpu()
    return time.perf_counter() - started


def full_batch_seconds(graph: Graph, device: torch.device) -> float:
    """Of all epochs, from a run of a few and one of none."""
    epochs = resolve(AFGRLSettings, {"batch_size": 0}, graph=graph).epochs
    preparation, some = (afgrl_seconds(graph, device, epochs=count) for count in (0, FULL_MEASURED))
    return preparation + epochs * (some - preparation) / FULL_MEASURED


class _Encoder(nn.Module):
    """As in PyG's example of Deep Graph Infomax."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.conv, self.activation = GCNConv(n_features, DGI_WIDTH), nn.PReLU(DGI_WIDTH)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        activated: Tensor = self.activation(self.conv(x, edge_index))
        return activated


def dgi_seconds(graph: Graph, device: torch.device) -> float:
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


def measured(name: str, data_dir: str | None, device: torch.device) -> dict[str, Any]:
    graph = load(name, data_dir=data_dir).graph
    afgrl_seconds(graph, device, steps=2)  # loads libraries and compiles kernels
    new, full, dgi = (time_of(graph, device) for time_of in (afgrl_seconds, full_batch_seconds, dgi_seconds))
    return {
        "graph": name, "default_seconds": new, "full_batch_seconds": full, "dgi_seconds": dgi,
        "times_faster_than_full_batches": full / new, "times_faster_than_dgi": dgi / new,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--data-dir", help="folder of raw dataset files, also AFGRL_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "default-speed.json")
    given = parser.parse_args()
    device = choose_device(given.device)
    answer = current_environment(device) | {"rows": []}
    for name in given.graphs:
        row = measured(name, given.data_dir, device)
        answer["rows"].append(row)
        given.out.write_text(json.dumps(answer, indent=1) + "\n")  # what is done stays if the next one fails
        print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else value for key, value in row.items()))


if __name__ == "__main__":
    main()
