"""Node embeddings for graphs with features and no labels."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from afgrl.ops import threads

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with the names below
    from afgrl.bench import measure_speed
    from afgrl.cost.forecast import estimate
    from afgrl.data import Dataset, catalog, load
    from afgrl.data.convert import from_networkx, from_pandas, from_pyg, from_scipy, knn_graph
    from afgrl.data.describe import check
    from afgrl.doctor import examine
    from afgrl.errors import AfgrlError, UserError
    from afgrl.estimators import (
        AFGRL,
        BGRL,
        CCASSG,
        DGI,
        GCA,
        GMI,
        GRACE,
        MVGRL,
        NS4GC,
        PPR,
        SGRL,
        SIGNA,
        SVD,
        DeepWalk,
        DeepWalkFeatures,
        GraphMAE2,
        Hops,
        Node2Vec,
        NodeEmbedder,
        RandomEncoder,
        RawFeatures,
    )  # fmt: skip
    from afgrl.estimators.questions import add_nodes, cluster, quality, remove_nodes, search
    from afgrl.explore import serve_explorer
    from afgrl.graph import Graph
    from afgrl.notebook import NodePlot
    from afgrl.onnx import export_encoder
    from afgrl.report import compare, compare_methods, write_report
    from afgrl.reproduce.pipeline import reproduce_results

__version__ = "0.1.0"
DEFAULT_METHOD = "node_embedder"  # what `afgrl fit` trains

threads.came_too_late = threads.configure_threads()

# Public name → its module; imported at first use, so that `afgrl --help` does not load PyTorch.
_PUBLIC = {
    "AFGRL": "afgrl.estimators",
    "AfgrlError": "afgrl.errors",
    "BGRL": "afgrl.estimators",
    "CCASSG": "afgrl.estimators",
    "DGI": "afgrl.estimators",
    "Dataset": "afgrl.data",
    "DeepWalk": "afgrl.estimators",
    "DeepWalkFeatures": "afgrl.estimators",
    "GCA": "afgrl.estimators",
    "GMI": "afgrl.estimators",
    "GRACE": "afgrl.estimators",
    "Graph": "afgrl.graph",
    "GraphMAE2": "afgrl.estimators",
    "Hops": "afgrl.estimators",
    "MVGRL": "afgrl.estimators",
    "NS4GC": "afgrl.estimators",
    "Node2Vec": "afgrl.estimators",
    "NodeEmbedder": "afgrl.estimators",
    "NodePlot": "afgrl.notebook",
    "PPR": "afgrl.estimators",
    "RandomEncoder": "afgrl.estimators",
    "RawFeatures": "afgrl.estimators",
    "SGRL": "afgrl.estimators",
    "SIGNA": "afgrl.estimators",
    "SVD": "afgrl.estimators",
    "UserError": "afgrl.errors",
    "add_nodes": "afgrl.estimators.questions",
    "catalog": "afgrl.data",
    "check": "afgrl.data.describe",
    "cluster": "afgrl.estimators.questions",
    "compare": "afgrl.report",
    "compare_methods": "afgrl.report",
    "estimate": "afgrl.cost.forecast",
    "examine": "afgrl.doctor",
    "export_encoder": "afgrl.onnx",
    "from_networkx": "afgrl.data.convert",
    "from_pandas": "afgrl.data.convert",
    "from_pyg": "afgrl.data.convert",
    "from_scipy": "afgrl.data.convert",
    "knn_graph": "afgrl.data.convert",
    "load": "afgrl.data",
    "measure_speed": "afgrl.bench",
    "quality": "afgrl.estimators.questions",
    "remove_nodes": "afgrl.estimators.questions",
    "reproduce_results": "afgrl.reproduce.pipeline",
    "search": "afgrl.estimators.questions",
    "serve_explorer": "afgrl.explore",
    "write_report": "afgrl.report",
}
__all__ = [
    "AFGRL", "BGRL", "CCASSG", "DGI", "GCA", "GMI", "GRACE", "MVGRL", "NS4GC", "PPR", "SGRL", "SIGNA", "SVD",
    "AfgrlError", "Dataset", "DeepWalk", "DeepWalkFeatures", "Graph", "GraphMAE2", "Hops", "Node2Vec", "NodeEmbedder",
    "NodePlot", "RandomEncoder", "RawFeatures", "UserError", "add_nodes", "catalog", "check", "cluster", "compare",
    "compare_methods", "estimate", "examine", "export_encoder", "from_networkx", "from_pandas", "from_pyg",
    "from_scipy", "knn_graph", "load", "measure_speed", "quality", "remove_nodes", "reproduce_results", "search",
    "serve_explorer", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'afgrl' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
