"""The dataset of a run on disk: graph, labels, splits and the user's columns, so that a run needs no source."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from afgrl.csr import csr_tensor
from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.describe import describe_dataset
from afgrl.data.ingest import IngestReport
from afgrl.data.splits import Splits
from afgrl.data.tables.encode import table_encoder_from_json
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.runs.files import replace_file, save_npz
from afgrl.runs.spec import RunSpec

GRAPH, NODES, SPLITS = "graph.safetensors", "nodes.parquet", "splits.npz"
DATA, TABLE_ENCODER = "data.json", "preprocessing.json"
MAX_FEATURE_BYTES = 2 << 30  # larger features stay in the source


def save_dataset(folder: Path, dataset: Dataset, *, with_features: bool = True) -> str | None:
    """Write everything a run needs of its dataset, data.json last. Returns a sentence if the features stay outside."""
    ingested = dataset.ingested
    if dataset.graph.table_encoder is not None:
        _write_json(folder / TABLE_ENCODER, dataset.graph.table_encoder.as_json())
    if dataset.y is not None and dataset.splits is not None:
        arrays = {"name": np.array(dataset.splits.name), "roles": dataset.splits.roles, "y": dataset.y}
        replace_file(folder / SPLITS, lambda path: save_npz(path, arrays, compressed=True))
    columns, label = _node_columns(dataset)
    replace_file(folder / NODES, lambda path: pq.write_table(columns, path))
    features = feature_arrays(dataset.graph.x)
    size = sum(part.numel() * part.element_size() for part in features.values())
    inside = with_features and size <= MAX_FEATURE_BYTES
    _write_graph(folder / GRAPH, dataset.graph, features if inside else {})
    data = describe_dataset(dataset) | {"label": label, "class_names": ingested.classes if ingested else None}
    data["directed"] = dataset.graph.directed
    data["features_fingerprint"] = None if inside else features_fingerprint(dataset.graph.x)
    _write_json(folder / DATA, data)
    if inside or not with_features:
        return None
    return (
        f"The features ({size / 2**30:.1f} GiB) are not copied into the run: evaluate, cluster, embed --graph and "
        "--resume need the source to stay unchanged."
    )


def load_dataset(folder: Path, spec: RunSpec, data_dir: str | None = None) -> Dataset:
    """The dataset as the run was trained on it; only features outside the run are read from the source."""
    data, stored = read_data(folder), _read_graph(folder)
    nodes = pq.read_table(folder / NODES)
    encoder_file = folder / TABLE_ENCODER
    table_encoder = table_encoder_from_json(json.loads(encoder_file.read_text())) if encoder_file.is_file() else None
    x = _stored_features(stored, len(nodes))
    if x is None:
        x = _source_features(folder, spec, data["features_fingerprint"], data_dir)
    graph = Graph(
        x, stored["edge_index"].to(torch.int64), nodes["id"].to_numpy(), bool(data["directed"]),
        stored.get("edge_weight"), table_encoder,
    )  # fmt: skip
    y, splits = load_labels(folder)
    report = IngestReport.from_json(data["messages"])
    ingested = Ingested(nodes, graph.n, data["label"], data["class_names"], report)
    return Dataset(data["name"], graph, y, splits, ingested)


def load_edges(folder: Path) -> Graph:
    """The graph with a constant feature, for what needs only its edges: they are in the run even if x is not."""
    data, stored = read_data(folder), _read_graph(folder)
    constant = torch.ones(pq.read_metadata(folder / NODES).num_rows, 1)
    edge_index, edge_weight = stored["edge_index"].to(torch.int64), stored.get("edge_weight")
    return Graph(constant, edge_index, directed=bool(data["directed"]), edge_weight=edge_weight)


def load_labels(folder: Path) -> tuple[np.ndarray | None, Splits | None]:
    """Labels [n] and splits; None for a dataset without labels."""
    if not (folder / SPLITS).is_file():
        return None, None
    with np.load(folder / SPLITS, allow_pickle=False) as stored:
        return stored["y"], Splits(str(stored["name"]), stored["roles"])


def read_data(folder: Path) -> dict[str, Any]:
    """What is known about the dataset: the answer of `afgrl check` and the label column; empty before it is saved."""
    file = folder / DATA
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def feature_arrays(x: Tensor) -> dict[str, Tensor]:
    """Features as plain arrays: dense, or the three of CSR with 32-bit columns."""
    if x.layout != torch.sparse_csr:
        return {"x": x.cpu().contiguous()}
    columns = x.col_indices().cpu().to(torch.int32)  # a table has fewer than 2³¹ columns
    return {"x.indptr": x.crow_indices().cpu(), "x.indices": columns, "x.values": x.values().cpu()}


def features_fingerprint(x: Tensor) -> str:
    digest = hashlib.sha256(repr(tuple(x.shape)).encode())
    for name, part in feature_arrays(x).items():
        digest.update(name.encode())
        digest.update(part.numpy().tobytes())
    return digest.hexdigest()[:16]


def _node_columns(dataset: Dataset) -> tuple[pa.Table, str | None]:
    """The columns of the nodes, ``id`` first, and which one is the label."""
    if dataset.ingested is not None:
        return dataset.ingested.columns, dataset.ingested.label
    columns = pa.table({"id": pa.array(dataset.graph.ids)})
    if dataset.y is None:
        return columns, None
    return columns.append_column("label", pa.array(dataset.y)), "label"


def _write_graph(file: Path, graph: Graph, features: dict[str, Tensor]) -> None:
    index_type = torch.int32 if graph.n < 2**31 else torch.int64
    tensors = {"edge_index": graph.edge_index.cpu().to(index_type).contiguous(), **features}
    if graph.edge_weight is not None:
        tensors["edge_weight"] = graph.edge_weight.cpu()
    shape = {"n_features": str(graph.n_features)}
    # Written as bytes: the library would create a file that only its owner may read.
    replace_file(file, lambda path: path.write_bytes(save(tensors, metadata=shape)))


def _read_graph(folder: Path) -> dict[str, Any]:
    file = folder / GRAPH
    if not file.is_file() or not (folder / DATA).is_file():
        raise UserError(f"The run {str(folder)!r} is incomplete: it has no {GRAPH}; train it again.")
    try:
        with safe_open(file, "pt") as stored:
            tensors: dict[str, Any] = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            return tensors | {"n_features": int(stored.metadata()["n_features"])}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"The graph of the run {str(folder)!r} is damaged: {error}.") from None


def _stored_features(stored: dict[str, Any], n: int) -> Tensor | None:
    if "x.indptr" in stored:
        columns = stored["x.indices"].to(torch.int64)
        return csr_tensor(stored["x.indptr"], columns, stored["x.values"], (n, stored["n_features"]))
    x: Tensor | None = stored.get("x")
    return x


def _source_features(folder: Path, spec: RunSpec, fingerprint: str | None, data_dir: str | None) -> Tensor:
    x = spec.load(data_dir).graph.x
    if features_fingerprint(x) != fingerprint:
        raise UserError(f"The features of {spec.source!r} differ from those that {str(folder)!r} was trained on.")
    return x


def _write_json(file: Path, value: Any) -> None:
    text = json.dumps(value, indent=1) + "\n"
    replace_file(file, lambda path: path.write_text(text, encoding="utf-8"))
