"""A run holds its dataset, so that the source is not needed again."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from afgrl import from_pandas, load
from afgrl.csr import csr_from_scipy
from afgrl.data import Dataset
from afgrl.data.files import load_files
from afgrl.data.splits import random_splits
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.runs import dataset_files
from afgrl.runs.dataset_files import features_fingerprint, load_dataset, save_dataset
from afgrl.runs.spec import RunSpec
from tests.conftest import communities, weighted

SPEC = RunSpec("nowhere")


def assert_same(stored, dataset):
    graph, other = stored.graph, dataset.graph
    assert graph.x.layout == other.x.layout
    assert torch.equal(graph.x.to_dense(), other.x.to_dense())
    assert torch.equal(graph.edge_index, other.edge_index)
    assert graph.directed == other.directed
    assert (graph.edge_weight is None) == (other.edge_weight is None)
    if graph.edge_weight is not None:
        assert torch.equal(graph.edge_weight, other.edge_weight)
    assert graph.ids.tolist() == other.ids.tolist()
    assert graph.table_encoder == other.table_encoder
    assert stored.feature_names == dataset.feature_names
    for mine, theirs in (
        (stored.y, dataset.y),
        (stored.splits and stored.splits.roles, dataset.splits and dataset.splits.roles),
    ):
        assert (mine is None) == (theirs is None)
        assert mine is None or np.array_equal(mine, theirs)


def with_labels(graph):
    y = np.arange(graph.n) % 3
    return Dataset("made", graph, y, random_splits(graph.n, seed=3))


def sparse(graph):
    return Graph(csr_from_scipy(sp.csr_array(graph.x.numpy() * (graph.x.numpy() > 1))), graph.edge_index)


@pytest.mark.parametrize(
    "dataset",
    [
        with_labels(communities()),
        Dataset("weighted", weighted(communities())),
        with_labels(sparse(communities())),
        Dataset("directed", Graph(torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]]), ["a", "b", "c", "d"], True)),
        Dataset("no edges", Graph(torch.eye(3), torch.empty(2, 0, dtype=torch.int64))),
    ],
    ids=lambda dataset: dataset.name,
)
def test_a_dataset_survives_a_round_trip(dataset, tmp_path):
    assert save_dataset(tmp_path, dataset) is None
    assert_same(load_dataset(tmp_path, SPEC), dataset)


def tables(folder):
    """Nodes with a number, a category, a date and a partly missing label."""
    folder.mkdir()
    rows = [f"n{i},{i * 1.5},{'xyz'[i % 3]},2020-01-{i + 1:02},{'' if i == 4 else 'ab'[i % 2]}" for i in range(12)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,kind,since,label", *rows, ""]))
    edges = [f"n{i},n{(i + 1) % 12},{i + 1}" for i in range(12)]
    (folder / "edges.csv").write_text("\n".join(["source,target,weight", *edges, ""]))
    return folder


def test_tables_survive_with_columns_labels_and_encoder(tmp_path):
    dataset = load(tables(tmp_path / "tables"))
    (tmp_path / "run").mkdir()
    save_dataset(tmp_path / "run", dataset)
    stored = load_dataset(tmp_path / "run", SPEC)
    assert_same(stored, dataset)
    assert stored.ingested.columns.equals(dataset.ingested.columns)
    assert stored.ingested.label == "label"
    assert stored.ingested.classes == ["a", "b"]
    assert (
        stored.ingested.report.as_json()[: len(dataset.ingested.report.messages)] == dataset.ingested.report.as_json()
    )
    assert stored.y[4] == -1


def test_types_of_columns_survive(tmp_path):
    nodes = pd.DataFrame(
        {
            "id": ["a", "b", "c"], "age": [1, 2, 3], "ok": [True, False, True],
            "day": pd.to_datetime(["2020-01-01", "2020-02-01", "2020-03-01"]), "size": [1.5, None, 2.5],
        }
    )  # fmt: skip
    nodes.to_parquet(tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    dataset = load_files(tmp_path)
    (tmp_path / "run").mkdir()
    save_dataset(tmp_path / "run", dataset)
    columns = load_dataset(tmp_path / "run", SPEC).ingested.columns
    assert columns.schema.equals(dataset.ingested.columns.schema)
    kinds = {name: columns.schema.field(name).type for name in ("age", "ok", "size")}
    assert kinds == {"age": pa.int64(), "ok": pa.bool_(), "size": pa.float64()}
    assert pa.types.is_timestamp(columns.schema.field("day").type)


def test_graphs_from_python_survive_too(tmp_path):
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "age": [1, 2, 3]})
    graph = from_pandas(nodes, pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}))
    save_dataset(tmp_path, Dataset("graph", graph))
    assert_same(load_dataset(tmp_path, SPEC), Dataset("graph", graph))


def test_large_features_stay_in_the_source_and_the_message_says_so(tmp_path, monkeypatch):
    source = tables(tmp_path / "tables")
    dataset, spec = load(source), RunSpec(str(source))
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(dataset_files, "MAX_FEATURE_BYTES", 10)
    assert "not copied into the run" in save_dataset(tmp_path / "run", dataset)
    assert_same(load_dataset(tmp_path / "run", spec), dataset)
    text = (source / "nodes.csv").read_text()
    (source / "nodes.csv").write_text(text.replace("n3,4.5", "n3,400"))
    with pytest.raises(UserError, match=r"differ from those that .* was trained on"):
        load_dataset(tmp_path / "run", spec)


def test_the_fingerprint_of_features_follows_values_shape_and_layout():
    x = torch.eye(4)
    other = x.clone()
    other[2, 3] = 1e-6
    prints = {features_fingerprint(y) for y in (x, other, x.view(2, 8), csr_from_scipy(sp.csr_array(np.eye(4))))}
    assert len(prints) == 4
    assert features_fingerprint(x) == features_fingerprint(x.clone())


def test_a_damaged_graph_gets_one_sentence(tmp_path):
    save_dataset(tmp_path, with_labels(communities()))
    (tmp_path / "graph.safetensors").write_bytes(b"half of a fi")
    with pytest.raises(UserError, match="is damaged"):
        load_dataset(tmp_path, SPEC)
    (tmp_path / "graph.safetensors").unlink()
    with pytest.raises(UserError, match=r"is incomplete: it has no graph.safetensors"):
        load_dataset(tmp_path, SPEC)


def test_data_json_is_what_check_answers(tmp_path):
    save_dataset(tmp_path, with_labels(communities()))
    data = json.loads((tmp_path / "data.json").read_text())
    assert (data["nodes"], data["classes"], data["label"]) == (62, 3, "label")
