"""Everything that changes during training; a checkpoint is this on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.methods import check_processes, method_class
from afgrl.methods.base import Method, Size
from afgrl.ops.collectives import Shards
from afgrl.ops.optim import Adam


@dataclass
class TrainState:
    method: Method
    optimizer: Adam
    rng: torch.Generator
    last: int  # the last step; patience may lower it
    lowest: Tensor  # [] the lowest loss so far
    waited: Tensor  # [] int64, steps since then
    step: int = 0
    seconds: float = 0.0  # spent in training, without evaluation

    def to_checkpoint(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "last": self.last,
            "seconds": self.seconds,
            "lowest": self.lowest,
            "waited": self.waited,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.get_state(),
        }

    def restore(self, checkpoint: dict[str, Any]) -> None:
        self.method.load_state_dict(checkpoint["method"])
        # The options of the optimizer follow from the settings, and a checkpoint of several processes omits them.
        options = {"param_groups": self.optimizer.state_dict()["param_groups"]}
        self.optimizer.load_state_dict(options | checkpoint["optimizer"])
        rng_state = checkpoint["rng"].cpu()
        if len(rng_state) == len(self.rng.get_state()):
            self.rng.set_state(rng_state)
        else:  # saved on another kind of device, whose generator draws other numbers anyway
            self.rng.manual_seed(self.method.settings.seed + checkpoint["step"])
        self.step, self.last, self.seconds = checkpoint["step"], checkpoint["last"], checkpoint["seconds"]
        self.lowest.copy_(checkpoint["lowest"])
        self.waited.copy_(checkpoint["waited"])

    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.method.parameters())


def initial_state(
    method: str, settings: Settings, graph: Graph | MappedGraph, device: torch.device, shards: Shards | None = None
) -> tuple[TrainState, Any]:
    """A state before its first step, and the method's inputs; the initial parameters are the same on every device.

    With ``shards``, the state of one of several processes, whose inputs are the rows it owns; only those may be in
    files.
    """
    parameter_rng, size = torch.Generator().manual_seed(settings.seed), Size(graph.n, graph.n_features)
    model = method_class(method)(settings, size, parameter_rng).to(device)
    if shards is not None and shards.distributed:
        check_processes(method, settings)
        model.shards = shards
        inputs = model.prepare(graph)  # type: ignore[arg-type]  # reads and moves only its own rows
    else:
        assert isinstance(graph, Graph)
        inputs = model.prepare(graph.to(device))
    model.initialize(inputs)
    learned: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    learned = learned or [torch.empty(0, device=device)]  # an optimizer needs a tensor even if nothing is learned
    decay, decoupled = settings.weight_decay, model.decoupled_decay
    fused = model.fused_optimizer
    optimizer = Adam(learned, settings.learning_rate, weight_decay=decay, decoupled=decoupled, fused=fused)
    rng = torch.Generator(device).manual_seed(settings.seed)
    lowest, waited = torch.tensor(torch.inf, device=device), torch.tensor(0, device=device)
    return TrainState(model, optimizer, rng, settings.n_steps, lowest, waited), inputs
