"""Node embeddings for graphs with features and no labels."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name → its module; imported at first use, so that `afgrl --help` does not load PyTorch.
_PUBLIC = {
    "AFGRL": "afgrl.estimators",
    "AfgrlError": "afgrl.errors",
    "BGRL": "afgrl.estimators",
    "DGI": "afgrl.estimators",
    "Dataset": "afgrl.data",
    "DeepWalk": "afgrl.estimators",
    "DeepWalkFeatures": "afgrl.estimators",
    "GCA": "afgrl.estimators",
    "GMI": "afgrl.estimators",
    "GRACE": "afgrl.estimators",
    "Graph": "afgrl.graph",
    "Hops": "afgrl.estimators",
    "MVGRL": "afgrl.estimators",
    "Node2Vec": "afgrl.estimators",
    "PPR": "afgrl.estimators",
    "RandomEncoder": "afgrl.estimators",
    "RawFeatures": "afgrl.estimators",
    "SVD": "afgrl.estimators",
    "UserError": "afgrl.errors",
    "from_networkx": "afgrl.data.convert",
    "from_pandas": "afgrl.data.convert",
    "from_pyg": "afgrl.data.convert",
    "from_scipy": "afgrl.data.convert",
    "load": "afgrl.data",
}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'afgrl' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
