"""A PyG ``Data`` in a .pt file, saved as a dictionary of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from afgrl.amounts import counted
from afgrl.csr import no_csr_warnings
from afgrl.data.dataset import Dataset
from afgrl.data.ingest import IngestReport
from afgrl.data.node_arrays import label_column, node_columns
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.column_names import NO_COLUMN
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames
from afgrl.data.unpacking import MAX_RATIO, check_unpacked_size, packed_too_densely, short_reason
from afgrl.errors import UserError

MAX_NODES_PER_EDGE = 1000
WEIGHTS = ("edge_weight", "edge_attr")  # where PyG's layers expect weights
KNOWN = ("x", "edge_index", *WEIGHTS, "num_nodes")
OF_EDGES, MASK = ("edge_", "adj_"), "_mask"  # in names of attributes
HOW_TO_SAVE = "torch.save(data.to_dict(), FILE)"


def load_pyg_file(path: Path, options: ReadOptions, fitted: Fitted = None) -> Dataset:
    stored = _load_tensors(path)
    edges = _array(stored["edge_index"], "edge_index", path)
    features = None if stored.get("x") is None else _array(stored["x"], "x", path)
    n = _checked_n_nodes(edges, features, stored.get("num_nodes"), path)
    report = IngestReport()
    label, columns = pyg_columns(stored, n, report, path.name)
    nodes = pa.table({"id": np.arange(n), **label, **columns})
    weights = {} if options.weight == NO_COLUMN else _weights(stored, edges.shape[1], report, path)
    table = pa.table({"source": edges[0], "target": edges[1], **weights})
    own = replace(
        options, id="id", label=options.label or pyg_label(label, columns), knn_graph=None,
        columns=(*(f"{name}=ignore" for name in columns), *options.columns),
    )  # fmt: skip
    return dataset_from_tables(
        nodes, table, own, features=features, fitted=fitted, name=path.stem, names=TableNames(path.name, path.name),
        report=report,
    )  # fmt: skip


def pyg_columns(
    stored: Mapping[str, Any], n: int, report: IngestReport, where: str
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """The classes in ``y`` as column ``label``, if it holds classes, and further attributes as columns. Masks and what
    belongs to edges are no columns, even if there are as many edges as nodes."""
    others = {name: value for name, value in stored.items() if name not in KNOWN and value is not None}
    y = others.get("y")
    label = {}
    if isinstance(y, Tensor) and y.shape == (n,) and y.layout == torch.strided and _holds_classes(y):
        label = label_column(others.pop("y").detach().cpu().numpy().astype(np.int64))
    other_kinds = [name for name in others if name.startswith(OF_EDGES) or name.endswith(MASK)]
    columns = node_columns(others | dict.fromkeys(other_kinds), n, report, where)
    return label, columns


def pyg_label(label: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> str | None:
    """The label column; none if ``y`` holds numbers to predict. Without ``y``, another column may be one."""
    return next(iter(label), NO_COLUMN if "y" in columns else None)


def _holds_classes(values: Tensor) -> bool:
    return not (values.is_floating_point() or values.is_complex() or values.is_quantized or values.is_meta)


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


def _array(value: Any, name: str, path: Path) -> np.ndarray:
    """A tensor as a NumPy array of integers, booleans or float32; tensors of unusual kinds are converted or refused."""
    if not isinstance(value, Tensor):
        raise UserError(f"{name!r} in {path} must be a tensor, but it is of type {type(value).__name__}.")
    kind = f"{str(value.dtype).removeprefix('torch.')} tensor ({str(value.layout).removeprefix('torch.')})"
    if value.is_complex() or value.is_quantized or value.is_meta:
        kind = "tensor without values" if value.is_meta else kind
        raise UserError(f"{name!r} in {path} is a {kind}, which cannot be used.")
    # Of a dense tensor, every value is in the file, unless it was expanded: then one number fills any shape.
    size, packed = value.numel() * value.element_size(), path.stat().st_size
    if value.layout == torch.strided and size > MAX_RATIO * packed:
        raise packed_too_densely(path)
    check_unpacked_size(path, size, packed)
    try:
        plain = _checked_dense(value.detach()).resolve_neg()
        array: np.ndarray = (plain.float() if plain.is_floating_point() else plain).numpy()
    except MemoryError:
        raise
    except Exception as error:  # torch raises many types, depending on the kind of tensor
        raise UserError(f"{name!r} in {path} is a {kind}, which cannot be used: {short_reason(error)}.") from None
    return array


def _checked_dense(value: Tensor) -> Tensor:
    """A sparse tensor is built again, with its indices checked: one out of bounds would write to foreign memory."""
    if value.layout == torch.strided:
        return value
    with no_csr_warnings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about layouts in beta
        if value.layout == torch.sparse_coo:
            value = torch.sparse_coo_tensor(value._indices(), value._values(), value.shape, check_invariants=True)
        elif value.layout == torch.sparse_csr:
            parts = value.crow_indices(), value.col_indices(), value.values()
            value = torch.sparse_csr_tensor(*parts, value.shape, check_invariants=True)
        else:
            raise ValueError("only the sparse layouts COO and CSR are read")
        return value.to_dense()


def _checked_n_nodes(edges: np.ndarray, features: np.ndarray | None, given: Any, path: Path) -> int:
    """The number of nodes, after a check of the edges."""
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise UserError(f"The edges in {path} must be integers of shape [2, e], not {edges.dtype} of {edges.shape}.")
    highest = int(edges.max()) if edges.size else -1
    if features is not None:
        if features.ndim != 2:
            raise UserError(f"'x' in {path} must have shape [nodes, features], not {features.shape}.")
        n = len(features)
    else:
        # Nodes without features and edges have only their number; far more of them than edges would be a mistake.
        n = max(highest + 1, given if isinstance(given, int) else 0)
        if n > MAX_NODES_PER_EDGE * (edges.shape[1] + 1):
            raise UserError(
                f"{path} has {counted(n, 'node')} without features but only {counted(edges.shape[1], 'edge')}."
            )
    if edges.size and not 0 <= int(edges.min()) <= highest < n:
        wrong = highest if highest >= n else int(edges.min())
        raise UserError(f"An edge in {path} refers to node {wrong}, but the nodes are 0 to {n - 1}.")
    return n


def weight_attribute(stored: Mapping[str, Any], n_edges: int, report: IngestReport, where: str) -> str | None:
    """Which of ``WEIGHTS`` holds the edge weights: ``edge_weight``, or ``edge_attr`` if it is one number above 0 for
    each edge. The report says if ``edge_attr`` is ignored."""
    has_weight, attributes = stored.get("edge_weight") is not None, stored.get("edge_attr")
    if not has_weight and isinstance(attributes, Tensor) and _are_weights(attributes, n_edges):
        report.info(f"Edge weights: 'edge_attr' of {where}.")
        return "edge_attr"
    if attributes is not None:
        shape = f" of shape {tuple(attributes.shape)}" if isinstance(attributes, Tensor) else ""
        why = "the weights are in 'edge_weight'" if has_weight else "it is not one number above 0 for each edge"
        report.warning(f"Ignored in {where}: 'edge_attr'{shape}, because {why}.")
    return "edge_weight" if has_weight else None


def _are_weights(values: Tensor, n_edges: int) -> bool:
    has_numbers = values.layout == torch.strided and not (values.is_complex() or values.is_quantized or values.is_meta)
    if not has_numbers or values.shape not in ((n_edges,), (n_edges, 1)):
        return False
    numbers = values.detach().float()
    return bool((torch.isfinite(numbers) & (numbers > 0)).all())


def _weights(stored: dict[str, Any], n_edges: int, report: IngestReport, path: Path) -> dict[str, np.ndarray]:
    name = weight_attribute(stored, n_edges, report, path.name)
    if name is None:
        return {}
    weight = _array(stored[name], name, path)
    if weight.size != n_edges:
        raise UserError(f"{path} has {counted(n_edges, 'edge')} but {counted(weight.size, 'edge weight')}.")
    return {"weight": weight.reshape(-1).astype(np.float64)}
