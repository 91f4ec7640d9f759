"""The dataset of a run on disk: graph, labels, splits and the user's columns, so that a run needs no source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pydantic import TypeAdapter
from torch import Tensor

from afgrl.amounts import byte_size
from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.describe import describe_dataset
from afgrl.data.ingest import IngestReport
from afgrl.data.splits import TEST, Splits
from afgrl.data.tables.encode import table_encoder_from_json
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.runs.files import replace_file, save_npz, write_json, write_table
from afgrl.runs.graph_file import (
    check_graph,
    feature_arrays,
    features_fingerprint,
    map_graph,
    read_graph,
    write_graph,
)
from afgrl.runs.readers import check, n_rows, read_arrays, read_json, read_record, read_table, reading
from afgrl.runs.spec import RunSpec

GRAPH, NODES, SPLITS = "graph.safetensors", "nodes.parquet", "splits.npz"
DATA, TABLE_ENCODER = "data.json", "preprocessing.json"
MAX_FEATURE_BYTES = 2 << 30  # larger features stay in the source
NULL = type(None)
# The entries of data.json that are read again; the others are shown.
DATA_ENTRIES: dict[str, type | tuple[type, ...]] = {
    "name": str, "nodes": int, "messages": list, "label": (str, NULL), "class_names": (list, NULL), "directed": bool,
    "features_fingerprint": (str, NULL),
}  # fmt: skip


def save_dataset(folder: Path, dataset: Dataset, *, with_features: bool = True) -> str | None:
    """Write everything a run needs of its dataset, data.json last. Returns a sentence if the features stay outside."""
    ingested = dataset.ingested
    if dataset.graph.table_encoder is not None:
        write_json(folder / TABLE_ENCODER, dataset.graph.table_encoder.as_json())
    if dataset.y is not None and dataset.splits is not None:
        arrays = {"name": np.array(dataset.splits.name), "roles": dataset.splits.roles, "y": dataset.y}
        replace_file(folder / SPLITS, lambda path: save_npz(path, arrays, compressed=True))
    columns, label = _node_columns(dataset)
    write_table(folder / NODES, columns)
    features = feature_arrays(dataset.graph.x)
    size = sum(part.numel() * part.element_size() for part in features.values())
    inside = with_features and size <= MAX_FEATURE_BYTES
    write_graph(folder / GRAPH, dataset.graph, features if inside else {})
    data = describe_dataset(dataset) | {"label": label, "class_names": ingested.classes if ingested else None}
    data |= {"id_column": ingested.id_column, "name_column": ingested.name_column} if ingested else {}
    data["directed"] = dataset.graph.directed
    data["features_fingerprint"] = None if inside else features_fingerprint(dataset.graph.x)
    write_json(folder / DATA, data)
    if inside or not with_features:
        return None
    return (
        f"The features ({byte_size(size)}) are not copied into the run: evaluate, cluster, embed --graph and "
        "--resume need the source to stay unchanged."
    )


def load_dataset(folder: Path, spec: RunSpec, data_dir: str | None = None) -> Dataset:
    """The dataset as the run was trained on it; only features outside the run are read from the source."""
    data, nodes = read_record(folder / DATA, **DATA_ENTRIES), read_nodes(folder)
    stored = read_graph(folder / GRAPH, len(nodes))
    table_encoder = _table_encoder(folder / TABLE_ENCODER)
    x = stored.x
    if x is None:
        x = source_features(folder, spec, data["features_fingerprint"], data_dir)
    with reading(folder / GRAPH):
        ids = nodes["id"].to_numpy()
        graph = Graph(x, stored.edge_index, ids, data["directed"], stored.edge_weight, table_encoder)
    y, splits = load_labels(folder)
    with reading(folder / DATA):
        report = IngestReport.from_json(data["messages"])
        names, n_classes = data["class_names"], 0 if y is None else int(y.max()) + 1
        fits = names is None or (len(names) >= n_classes and all(isinstance(name, str) for name in names))
        check(fits, f"its entry 'class_names' does not name the {n_classes} classes of splits.npz")
    ingested = Ingested(
        nodes, graph.n, data["label"], data["class_names"], report, data.get("id_column"), data.get("name_column")
    )
    dataset = Dataset(data["name"], graph, y, splits, ingested)
    with reading(folder / TABLE_ENCODER):
        check(len(dataset.feature_names) == graph.n_features, "it does not describe the features of the graph")
    return dataset


def load_edges(folder: Path) -> Graph:
    """The graph with a constant feature, for what needs only its edges: they are in the run even if x is not."""
    data, n = read_record(folder / DATA, **DATA_ENTRIES), n_rows(folder / NODES)
    stored = read_graph(folder / GRAPH, n)
    with reading(folder / GRAPH):
        return Graph(torch.ones(n, 1), stored.edge_index, directed=data["directed"], edge_weight=stored.edge_weight)


def map_edges(folder: Path) -> MappedGraph:
    """The same from the file of the run, after it was checked block by block."""
    data, n = read_record(folder / DATA, **DATA_ENTRIES), n_rows(folder / NODES)
    check_graph(folder / GRAPH, n)
    return map_graph(folder / GRAPH, directed=bool(data["directed"]), x=torch.ones(n, 1))


def load_labels(folder: Path) -> tuple[np.ndarray | None, Splits | None]:
    """Labels [n] and splits; None for a dataset without labels."""
    file = folder / SPLITS
    if not file.is_file():
        return None, None
    n = n_rows(folder / NODES)
    with reading(file):
        stored = read_arrays(file)
        name, y, roles = stored["name"], stored["y"], stored["roles"]
        check(name.ndim == 0 and name.dtype.kind == "U", "its array 'name' is not a text")
        check(y.shape == (n,) and y.dtype.kind in "iu", "its array 'y' is not one class for each node")
        check(int(y.min()) >= -1 and int(y.max()) < 2**31, "its array 'y' has classes out of range")
        fits = roles.ndim == 2 and roles.shape[1] == n and roles.shape[0] > 0 and roles.dtype == np.uint8
        check(fits and int(roles.max()) <= TEST, "its array 'roles' is not one role for each node")
        return y, Splits(str(name), roles)


def read_nodes(folder: Path) -> pa.Table:
    """``id`` and the user's columns, in the order of the vectors."""
    table = read_table(folder / NODES)
    with reading(folder / NODES):
        check(table.column_names[:1] == ["id"], "its first column is not 'id'")
        check(len(table["id"].drop_null().unique()) == len(table) > 0, "its ids are not unique")
        return table


def read_ids(folder: Path) -> np.ndarray:
    """The ids alone, in the order of the vectors: [n]."""
    ids: np.ndarray = read_table(folder / NODES, ["id"])["id"].to_numpy()
    return ids


def read_data(folder: Path) -> dict[str, Any]:
    """What is known about the dataset: the answer of `afgrl check` and the label column; empty before it is saved."""
    return read_record(folder / DATA, **DATA_ENTRIES) if (folder / DATA).is_file() else {}


def read_names(folder: Path) -> tuple[str, pa.ChunkedArray] | None:
    """The column of names that are shown beside the ids, and the names as text; None without such a column."""
    column = read_data(folder).get("name_column")
    if column is None:
        return None
    nodes = read_nodes(folder)
    with reading(folder / DATA):
        check(column in nodes.column_names[1:], f"its entry 'name_column' cannot be {column!r}")
        return column, nodes[column].cast(pa.string())


def _table_encoder(file: Path) -> Any:
    """How table columns became features; None if they were features before."""
    if not file.is_file():
        return None
    with reading(file):
        encoder = table_encoder_from_json(read_json(file))
        for part in [encoder] if isinstance(encoder, StructuralFeatures) else encoder.parts:
            values = asdict(part)
            TypeAdapter(type(part)).validate_python(values)  # the dataclass itself does not check its types
            lengths = {len(value) for value in values.values() if isinstance(value, list)}
            check(len(lengths) < 2, f"its lists have the lengths {sorted(lengths)}")
        return encoder


def _node_columns(dataset: Dataset) -> tuple[pa.Table, str | None]:
    """The columns of the nodes, ``id`` first, and which one is the label."""
    if dataset.ingested is not None:
        return dataset.ingested.columns, dataset.ingested.label
    columns = pa.table({"id": pa.array(dataset.graph.ids)})
    if dataset.y is None:
        return columns, None
    return columns.append_column("label", pa.array(dataset.y)), "label"


def source_features(folder: Path, spec: RunSpec, fingerprint: str | None, data_dir: str | None) -> Tensor:
    """The features of the source of a run; raises ``UserError`` if they are not those it was trained on."""
    x = spec.load(data_dir).graph.x
    if features_fingerprint(x) != fingerprint:
        raise UserError(f"The features of {spec.source!r} differ from those that {str(folder)!r} was trained on.")
    return x
