"""The trained method of a run, and what model.json says about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.config import Settings, resolve
from afgrl.methods import Method, Size, method_class
from afgrl.runs.folder import Run


def describe_model(
    method: Method, *, weighted: bool, epochs: int, seconds: float, peak_bytes: int | None = None
) -> dict[str, Any]:
    """The contents of model.json: what is needed to rebuild the method around its parameters, whether the edges of the
    training graph had weights, how long training took, and the most GPU memory in use meanwhile."""
    return {
        "method": method.name, **method.size._asdict(), "weighted": weighted, "epochs": epochs,
        "seconds": round(seconds, 3), "peak_bytes": peak_bytes, "settings": method.settings.model_dump(),
    }  # fmt: skip


def load_method(run: Run, device: torch.device) -> Method:
    """The trained method of a run, ready to embed."""
    tensors, description = run.model()
    with run.reading("model.json"):
        cls = method_class(description["method"])
        settings = resolve(cls.settings_class, description["settings"])
        size = Size(description["n_nodes"], description["n_features"])
        method = cls(settings, size, torch.Generator())
    load_parameters(run, method, tensors)
    return method.to(device).eval()


def load_parameters(run: Run, method: Method, tensors: dict[str, Tensor]) -> None:
    """Those of the model of a run."""
    with run.reading("model.safetensors"):
        extra = {"_extra_state": method.get_extra_state()} if "_extra_state" in method.state_dict() else {}
        method.load_state_dict({**tensors, **extra})


def complete_settings(run: Run) -> Settings:
    """The settings of a run. They are complete, so those of a damaged run or of another version do not fit."""
    spec = run.spec()
    with run.reading("config.toml"):
        return resolve(method_class(spec.method).settings_class, spec.settings)
