"""A PyG ``Data`` in a .pt file, saved as a dictionary of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from afgrl.data.dataset import Dataset
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.errors import UserError

HOW_TO_SAVE = "torch.save(data.to_dict(), FILE)"


def load_pyg_file(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    stored = _load_tensors(path)
    x, y, edge_index = stored.get("x"), stored.get("y"), stored["edge_index"]
    n = _checked_n_nodes(stored, path)
    nodes: dict[str, Any] = {"id": np.arange(n)}
    if isinstance(y, Tensor) and y.shape == (n,) and not y.is_floating_point():
        nodes["label"] = pa.array(y.numpy(), mask=(y < 0).numpy())  # -1 usually means unlabeled
    edges = pa.table({"source": edge_index[0].numpy(), "target": edge_index[1].numpy(), **_weights(stored, path)})
    features = None if x is None else (x.to_dense() if x.layout != torch.strided else x).numpy()
    label = options.label or ("label" if "label" in nodes else None)
    return dataset_from_tables(
        pa.table(nodes), edges, ReadOptions(id="id", label=label, weight=options.weight), features=features,
        fitted=fitted, name=path.stem, names=TableNames(path.name, path.name),
    )  # fmt: skip


def _load_tensors(path: Path) -> dict[str, Any]:
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch raises many types for what is not a tensor
        raise UserError(
            f"The file {path} is damaged or contains other objects than tensors, which are not loaded; "
            f"save it with {HOW_TO_SAVE}."
        ) from None
    if not isinstance(stored, dict) or not isinstance(stored.get("edge_index"), Tensor):
        raise UserError(f"The file {path} contains no dictionary with 'edge_index'; save it with {HOW_TO_SAVE}.")
    return stored


def _checked_n_nodes(stored: dict[str, Any], path: Path) -> int:
    """The number of nodes, after a check of the edges."""
    x, edges = stored.get("x"), stored["edge_index"]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise UserError(f"The edges in {path} must be integers of shape [2, e], not {tuple(edges.shape)}.")
    highest = int(edges.max()) if edges.numel() else -1
    n = int(x.shape[0] if x is not None else max(highest + 1, stored.get("num_nodes", 0)))
    if edges.numel() and not 0 <= int(edges.min()) <= highest < n:
        raise UserError(f"An edge in {path} refers to node {highest}, but the nodes are 0 to {n - 1}.")
    return n


def _weights(stored: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    weight, n_edges = stored.get("edge_weight"), stored["edge_index"].shape[1]
    if not isinstance(weight, Tensor):
        return {}
    if weight.numel() != n_edges:
        raise UserError(f"{path} has {n_edges:,} edges but {weight.numel():,} edge weights.")
    return {"weight": weight.reshape(-1).double().numpy()}
