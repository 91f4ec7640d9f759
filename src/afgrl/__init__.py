"""Node embeddings from a graph with features and no labels: no augmentation, no negatives."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name → its module. They are imported at first use, so that `afgrl --help` need not wait for PyTorch.
_PUBLIC = {
    "AFGRL": "afgrl.estimator",
    "AfgrlError": "afgrl.errors",
    "Dataset": "afgrl.data",
    "Graph": "afgrl.graph",
    "UserError": "afgrl.errors",
    "load": "afgrl.data",
}
__all__ = ["AFGRL", "AfgrlError", "Dataset", "Graph", "UserError", "load"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'afgrl' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
