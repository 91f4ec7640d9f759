"""Estimated memory and time of training on this machine, and settings that fit."""

from __future__ import annotations

from typing import Any

import torch

from afgrl.config import Settings, resolve
from afgrl.cost.machine import free_memory, matmul_rates
from afgrl.cost.workload import Workload, arithmetic, peak_memory
from afgrl.data import Dataset
from afgrl.methods.afgrl import AFGRLSettings

# Share of the rate of large matrix products that an epoch reaches: .64 and .38 for the default recipe on two CPU cores
# (results/bench-cpu-default.json), .23 to .5 for the paper's on an H200 (results/bench-nvidia-h200.json), where
# the time on a small graph depends on the number of kernels instead.
REACHED = {"cpu": 0.5, "cuda": 0.35}
LEAST_SECONDS = {"cpu": 0.0, "cuda": 1.4e-3}
NARROWEST = 64


def estimate_cost(dataset: Dataset, given: dict[str, Any]) -> dict[str, Any]:
    """Memory and time of AFGRL on each device of this machine, and narrower settings if the given ones do not fit."""
    settings = resolve(AFGRLSettings, given, graph=dataset.graph)
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "name": dataset.name, "nodes": dataset.graph.n, "edges": dataset.graph.n_edges,
        "features": dataset.graph.n_features, "settings": settings.model_dump(),
        "devices": [_on(kind, settings, Workload.of(dataset.graph, kind)) for kind in kinds],
    }  # fmt: skip


def _on(kind: str, settings: AFGRLSettings, load: Workload) -> dict[str, Any]:
    needed, free = peak_memory(settings, load), free_memory(kind)
    work = arithmetic(settings, load)
    rates = matmul_rates(torch.device(kind))
    busy = work.train / rates["train"] + work.search / rates["search"] / settings.refresh_every
    epoch = max(busy / REACHED[kind], LEAST_SECONDS[kind])
    return {
        "device": kind, "memory_bytes": needed, "free_bytes": free, "fits": needed <= free,
        "epoch_seconds": epoch, "seconds": epoch * settings.epochs,
        "narrower": {} if needed <= free else narrower(settings, load, free),
    }  # fmt: skip


def narrower(settings: AFGRLSettings, load: Workload, free: int) -> dict[str, int] | None:
    """The widest settings that fit, by halving; None if the graph itself is too large."""
    changes: dict[str, int] = {}
    while peak_memory(settings.model_copy(update=changes), load) > free:
        widths = {"n_components": settings.n_components, "predictor_width": settings.predictor_width} | changes
        if max(widths.values()) <= NARROWEST:
            return None
        changes = {name: width if width <= NARROWEST else width // 2 for name, width in widths.items()}
    return changes


def memory_warning(settings: Settings, dataset: Dataset, device: torch.device) -> str | None:
    """A sentence if training may run out of memory."""
    if not isinstance(settings, AFGRLSettings):
        return None
    load = Workload.of(dataset.graph, device.type)
    needed, free = peak_memory(settings, load), free_memory(device.type)
    if needed <= free:
        return None
    fitting = narrower(settings, load, free)
    advice = " ".join(f"--set {name}={value}" for name, value in (fitting or {}).items())
    hint = f"; {advice} would fit" if fitting else ""
    return f"Training may need {needed / 2**30:.1f} GiB on the {device.type}; {free / 2**30:.1f} GiB are free{hint}."
