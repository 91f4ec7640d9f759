"""Columns of nodes from arrays, tensors and attributes: they keep their types and are not features."""

import datetime

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from afgrl import RawFeatures, UserError, check, load
from afgrl.runs.folder import Run
from tests.data.small_files import write_npz

N = 12
DAYS = np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]")
ARRAYS = {
    "age": np.arange(N, dtype=">i4"),
    "height": np.linspace(1, 2, N, dtype=np.float16),
    "city": np.array([f"city {i}" for i in range(N)]),
    "code": np.array([f"c{i % 2}".encode() for i in range(N)]),
    "active": np.arange(N) % 2 == 0,
    "joined": DAYS,
    "month": DAYS.astype("datetime64[M]"),
}
TYPES = {
    "age": pa.int32(), "height": pa.float32(), "city": pa.string(), "code": pa.string(), "active": pa.bool_(),
    "joined": pa.date32(), "month": pa.date32(),
}  # fmt: skip
UNFIT = {
    "wide": np.zeros((N, 2)),
    "short": np.zeros(3),
    "objects": np.array([{}] * N, dtype=object),
    "complex": np.zeros(N, dtype=complex),
}


def sentences(dataset):
    return " ".join(dataset.ingested.report.sentences)


def check_columns(dataset):
    columns = dataset.ingested.columns
    assert {name: columns.schema.field(name).type for name in TYPES} == TYPES
    assert columns["age"].to_pylist() == list(range(N))
    assert columns["code"][1].as_py() == "c1"
    assert columns["joined"][1].as_py() == datetime.date(2020, 1, 2)
    assert "not used as features: 'age', 'height', 'city', 'code', 'active', 'joined', 'month'" in sentences(dataset)
    assert "not one value per node: 'wide', 'short', 'objects', 'complex'" in sentences(dataset)


def test_arrays_of_an_npz_file_are_columns(tmp_path):
    plain = load(write_npz(tmp_path / "plain.npz"))
    dataset = load(write_npz(tmp_path / "own.npz", **ARRAYS, **UNFIT))
    check_columns(dataset)
    assert torch.equal(dataset.graph.x.to_dense(), plain.graph.x.to_dense())
    assert np.array_equal(dataset.y, plain.y)
    assert dataset.ingested.name_column == "city"
    assert load(tmp_path / "own.npz", label="code").ingested.classes == ["c0", "c1"]
    RawFeatures(device="cpu").fit(dataset).save(tmp_path / "run")
    stored = Run.open(tmp_path / "run").nodes()
    assert stored.column_names == ["id", "label", *TYPES]
    assert stored.schema.field("joined").type == pa.date32()


def test_arrays_beside_an_adjacency_matrix_are_columns(tmp_path):
    matrix = sp.coo_array(np.roll(np.eye(N), 1, axis=0))
    parts = {"format": np.array("coo"), "shape": np.array(matrix.shape), "data": matrix.data}
    parts |= {"row": matrix.row, "col": matrix.col}
    np.savez(tmp_path / "plain.npz", **parts)
    np.savez(tmp_path / "own.npz", **parts, **ARRAYS, **UNFIT)
    dataset = load(tmp_path / "own.npz")
    check_columns(dataset)
    assert torch.equal(dataset.graph.x.to_dense(), load(tmp_path / "plain.npz").graph.x.to_dense())


@pytest.fixture
def data():
    ring = torch.arange(N)
    return Data(
        x=torch.eye(N), edge_index=torch.stack([ring, ring.roll(1)]), y=ring % 3 - 1, train_mask=ring > 3,
        edge_time=ring, age=ring.to(torch.int16), score=ring.to(torch.bfloat16), weight=ring / 2,
        positions=torch.zeros(N, 3), names=[f"n{i}" for i in range(N)],
    )  # fmt: skip


def check_pyg(dataset):
    columns = dataset.ingested.columns
    assert columns.column_names == ["id", "label", "age", "weight", "names"]
    assert columns.schema.field("age").type == pa.int16()
    assert columns["label"].to_pylist()[:3] == [None, 0, 1]
    assert dataset.y[:3].tolist() == [-1, 0, 1]
    assert "not one value per node: 'train_mask', 'edge_time', 'score', 'positions'" in sentences(dataset)
    assert torch.equal(dataset.graph.x.to_dense(), torch.eye(N))


def test_tensors_of_a_pt_file_are_columns(data, tmp_path):
    torch.save(data.to_dict(), tmp_path / "own.pt")
    check_pyg(load(tmp_path / "own.pt"))
    stored = data.to_dict() | {"y": torch.linspace(0, 1, N)}
    del stored["x"]
    torch.save(stored, tmp_path / "regression.pt")
    dataset = load(tmp_path / "regression.pt")
    assert dataset.y is None
    assert dataset.ingested.columns.schema.field("y").type == pa.float32()
    assert "age" not in dataset.feature_names


def test_attributes_of_a_pyg_data_are_columns_of_its_run(data, tmp_path):
    check_pyg(load(data))
    RawFeatures(device="cpu").fit(data).save(tmp_path / "run")
    assert Run.open(tmp_path / "run").nodes().column_names == ["id", "label", "age", "weight", "names"]
    assert check(data, label="none")["classes"] == 0
    with pytest.raises(UserError, match="knn_graph is for files and tables"):
        load(data, knn_graph=3)


@pytest.mark.parametrize("vectors", [True, False])
def test_attributes_of_a_network_are_columns_of_its_run(vectors, tmp_path):
    network = nx.path_graph(N)
    for node, attributes in network.nodes(data=True):
        attributes |= {"age": node * 1.5, "club": ["a", "b"][node % 2], "since": datetime.date(2020, 1, 1 + node)}
        attributes |= {"x": [1.0, node]} if vectors else {}
    model = RawFeatures(device="cpu").fit(network)
    model.save(tmp_path / "run")
    stored = Run.open(tmp_path / "run").nodes()
    assert stored.column_names == ["id", "age", "club", "since"]
    assert [stored.schema.field(name).type for name in ("age", "since")] == [pa.float64(), pa.date32()]
    assert (model.n_features_in_ == 2) == vectors
    assert np.allclose(model.transform(network), model.embedding_)
    dataset = load(network, label="club")
    assert (dataset.n_classes, dataset.splits is None) == (2, False)


def test_an_array_of_features_beside_several_node_tables_is_named_as_ignored(tmp_path):
    (tmp_path / "users.csv").write_text("id,age\nu1,3\nu2,4\n")
    (tmp_path / "items.csv").write_text("id,price\ni1,3\ni2,4\n")
    (tmp_path / "edges.csv").write_text("user,item\nu1,i1\nu2,i2\nu1,i2\n")
    np.save(tmp_path / "features.npy", np.eye(4))
    dataset = load(tmp_path)
    assert f"Ignored files of {tmp_path.name}: features.npy; with several node tables" in sentences(dataset)


def test_a_node_table_beside_an_array_of_features_gives_columns(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,age,since\na,3,2020-01-02\nb,4,2020-01-03\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    np.save(tmp_path / "features.npy", np.eye(2))
    columns = load(tmp_path).ingested.columns
    assert columns.schema.types[1:] == [pa.int64(), pa.date32()]
