"""Checks the installation: versions, device, folders, optional packages, and a short training run."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch

from afgrl.config import resolve
from afgrl.data import cache_folder
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops.dispatch import is_fast, missing
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state

# optional package → the extra that installs it
EXTRAS = {
    "faiss": "index", "fastapi": "explore", "onnxscript": "onnx", "pandas": "pandas", "lance": "lance",
    "sentence_transformers": "text", "plotly": "notebook", "anywidget": "notebook",
}  # fmt: skip


def examine(data_dir: str | None = None) -> dict[str, Any]:
    """What `afgrl doctor` prints, as a dictionary: device and versions, folders, optional packages, whether GPU kernels
    run, and under "works" whether a training run of three epochs succeeds."""
    device = choose_device("auto")
    report = current_environment(device)
    report["data folder"] = data_dir or os.environ.get("AFGRL_DATA") or "none (set --data-dir or AFGRL_DATA)"
    report["cache folder"] = str(cache_folder())
    report["optional"] = {
        package: "yes" if importlib.util.find_spec(package) else f"no (pip install 'afgrl[{extra}]')"
        for package, extra in EXTRAS.items()
    }
    report["GPU kernels"] = _gpu_kernels(device)
    report["works"] = _trains(device)
    return report


def _gpu_kernels(device: torch.device) -> str:
    obstacle = missing(device) if device.type == "cuda" else "no GPU found"
    if not obstacle and not is_fast():
        obstacle = "AFGRL_OPS=reference"
    return f"no: {obstacle}" if obstacle else "yes"


def _trains(device: torch.device) -> bool:
    """Three epochs on a ring of twelve nodes give finite vectors."""
    ring = torch.arange(12)
    graph = Graph(torch.eye(12), torch.stack([ring, ring.roll(1)]))
    small = {"epochs": 3, "n_components": 8, "predictor_width": 8}
    settings = resolve(method_class("afgrl").settings_class, small, graph=graph)
    state, inputs = initial_state("afgrl", settings, graph, device)
    training_loop(state, inputs)
    return bool(torch.isfinite(state.method.embed(inputs)).all())
