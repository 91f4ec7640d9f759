"""What training would take on this machine, said before it begins, and the settings that fit."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import torch

from afgrl.bench.measure import matmul_rates
from afgrl.config import resolve
from afgrl.data import Dataset
from afgrl.estimate import Workload, arithmetic, peak_memory
from afgrl.methods.afgrl import AFGRLConfig

# Share of the rate of large products that epochs of the default recipe reach: .64 and .38 on two CPU cores
# (results/bench-cpu-default.json), of the paper's .23 to .5 on an H200 (results/bench-nvidia-h200.json), where a small
# graph is bound by the number of its kernels instead.
REACHED = {"cpu": 0.5, "cuda": 0.35}
LEAST_SECONDS = {"cpu": 0.0, "cuda": 1.4e-3}
NARROWEST = 64
CONTROL_GROUP = Path("/sys/fs/cgroup")


def forecast(dataset: Dataset, settings: dict[str, Any]) -> dict[str, Any]:
    """Memory and time of AFGRL on each device of this machine, and narrower settings where those do not fit."""
    config = resolve(AFGRLConfig, settings).adapted(dataset.graph)
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "name": dataset.name, "nodes": dataset.graph.n, "edges": dataset.graph.n_edges,
        "features": dataset.graph.n_features, "settings": config.model_dump(),
        "devices": [_on(kind, config, Workload.of(dataset.graph, kind)) for kind in kinds],
    }  # fmt: skip


def _on(kind: str, config: AFGRLConfig, load: Workload) -> dict[str, Any]:
    needed, free = peak_memory(config, load), free_memory(kind)
    work = arithmetic(config, load)
    rates = matmul_rates(torch.device(kind))
    busy = work.train / rates["train"] + work.search / rates["search"] / config.refresh_every
    epoch = max(busy / REACHED[kind], LEAST_SECONDS[kind])
    return {
        "device": kind, "memory_bytes": needed, "free_bytes": free, "fits": needed <= free,
        "epoch_seconds": epoch, "seconds": epoch * (config.epochs or 0),
        "narrower": {} if needed <= free else narrower(config, load, free),
    }  # fmt: skip


def narrower(config: AFGRLConfig, load: Workload, free: int) -> dict[str, int] | None:
    """The widest settings that fit, halved step by step; None if the graph itself is too large."""
    assert config.n_components
    assert config.predictor_width
    changes: dict[str, int] = {}
    while peak_memory(config.model_copy(update=changes), load) > free:
        widths = {"n_components": config.n_components, "predictor_width": config.predictor_width} | changes
        if max(widths.values()) <= NARROWEST:
            return None
        changes = {name: width if width <= NARROWEST else width // 2 for name, width in widths.items()}
    return changes


def warning(config: Any, dataset: Dataset, device: torch.device) -> str | None:
    """A sentence where a training is about to run out of memory."""
    if not isinstance(config, AFGRLConfig):
        return None
    load = Workload.of(dataset.graph, device.type)
    needed, free = peak_memory(config, load), free_memory(device.type)
    if needed <= free:
        return None
    fitting = narrower(config, load, free)
    advice = " ".join(f"--set {name}={value}" for name, value in (fitting or {}).items())
    hint = f"; {advice} would fit" if fitting else ""
    return f"Training may need {needed / 2**30:.1f} GiB on the {device.type}, where {free / 2**30:.1f} are free{hint}."


def free_memory(kind: str) -> int:
    """Bytes that may still be taken."""
    if kind == "cuda":
        return torch.cuda.mem_get_info()[0]
    free = min(_free_of_machine(), _free_of_container())
    return int(free) if math.isfinite(free) else sys.maxsize


def _free_of_machine() -> float:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, which is not asked
        return math.inf


def _free_of_container(group: Path = CONTROL_GROUP) -> float:
    """Below the limit of a control group, where there is one."""
    try:
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        return math.inf if limit == "max" else int(limit) - int(used) + _cached_files(group)
    except (OSError, ValueError):
        return math.inf


def _cached_files(group: Path) -> int:
    """Bytes that count as used, but are given up as soon as others need them."""
    try:
        lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(lines["inactive_file"])
    except (OSError, KeyError, ValueError):
        return 0
