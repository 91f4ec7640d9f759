"""Node embeddings from a graph with features and no labels: no augmentation, no negatives."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name → its module. They are imported at first use, so that `afgrl --help` need not wait for PyTorch.
_PUBLIC = {
    "AFGRL": "afgrl.estimator",
    "AfgrlError": "afgrl.errors",
    "BGRL": "afgrl.estimator",
    "DGI": "afgrl.estimator",
    "Dataset": "afgrl.data",
    "DeepWalk": "afgrl.estimator",
    "DeepWalkFeatures": "afgrl.estimator",
    "GCA": "afgrl.estimator",
    "GMI": "afgrl.estimator",
    "GRACE": "afgrl.estimator",
    "Graph": "afgrl.graph",
    "Hops": "afgrl.estimator",
    "MVGRL": "afgrl.estimator",
    "Node2Vec": "afgrl.estimator",
    "RandomEncoder": "afgrl.estimator",
    "RawFeatures": "afgrl.estimator",
    "UserError": "afgrl.errors",
    "load": "afgrl.data",
}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'afgrl' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
