"""What this machine has, and whether the package works on it."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch

from afgrl.config import resolve
from afgrl.environment import environment
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops.dispatch import is_fast, missing
from afgrl.train import pick_device, start, train

# module → the extra that brings it
OPTIONAL = {"faiss": "index", "fastapi": "explore", "onnxscript": "onnx", "pandas": "pandas", "lance": "lance"}


def examine(data_dir: str | None = None) -> dict[str, Any]:
    """Versions, device, data and cache folders, optional parts, and a training of three epochs as proof."""
    from afgrl.data import cache_folder

    device = pick_device("auto")
    report = environment(device)
    report["data folder"] = data_dir or os.environ.get("AFGRL_DATA") or "none (--data-dir or AFGRL_DATA)"
    report["cache folder"] = str(cache_folder())
    report["optional"] = {
        module: "yes" if importlib.util.find_spec(module) else f"no (pip install 'afgrl[{extra}]')"
        for module, extra in OPTIONAL.items()
    }
    lacking = missing(device) if device.type == "cuda" else "there is no GPU"
    report["GPU kernels"] = f"no: {lacking}" if lacking else "yes" if is_fast() else "no: AFGRL_OPS=reference"
    report["works"] = _trains(device)
    return report


def _trains(device: torch.device) -> bool:
    """Three epochs on a ring of twelve nodes end with finite vectors."""
    ring = torch.arange(12)
    graph = Graph(torch.eye(12), torch.stack([ring, ring.roll(1)]))
    config = resolve(method_class("afgrl").Config, {"epochs": 3, "n_components": 8, "predictor_width": 8})
    config = config.adapted(graph)
    state, inputs = start("afgrl", config, graph, device)
    train(state, inputs)
    return bool(torch.isfinite(state.method.represent(inputs)).all())
