"""From two tables to a dataset."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from afgrl import UserError, load
from afgrl.data.files import load_files
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.structure import StructuralFeatures
from tests.data.tables import messages, write_tables


def test_two_tables_become_a_graph_with_their_ids(tmp_path):
    dataset = load(str(write_tables(tmp_path)))
    graph = dataset.graph
    assert graph.ids.tolist() == ["ann", "bob", "cy", "dee", "zed"]
    assert graph.n_edges == 3
    linked = {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_index.T.tolist()}
    assert linked == {("ann", "bob"), ("bob", "ann"), ("bob", "cy"), ("cy", "bob"), ("zed", "dee"), ("dee", "zed")}
    assert dataset.y.tolist() == [0, 1, 0, -1, -1]
    assert dataset.ingested.classes == ["a", "b"]
    assert dataset.ingested.n_listed == 4
    assert dataset.ingested.columns.column_names == ["id", "age", "city", "about", "label"]
    assert (dataset.splits.roles[:, 3:] == 0).all()  # unlabeled nodes are in no part of a split


def test_the_report_says_what_was_read(tmp_path):
    dataset = load(str(write_tables(tmp_path)))
    assert messages(dataset, "fixed") == ["Nodes of edges.csv without a row in nodes.csv: 1 (20%), first 'zed'."]
    assert messages(dataset, "warning") == []
    assert messages(dataset, "info") == [
        "Files read: nodes.csv, edges.csv.",
        "Node ids: column 'name' of nodes.csv.",
        "Edges: columns 'from' and 'to' of edges.csv.",
        "Label: column 'label' of nodes.csv; training does not use it.",
        "Edges of edges.csv in one direction only, used in both: 3.",
        "Nodes without a label: 2 of 5.",
        "Columns of nodes.csv read as numbers: 'age'.",
        "Columns of nodes.csv read as categories: 'city'.",
        "Columns of nodes.csv read as text: 'about'.",
        "Words of the text column 'about' of nodes.csv that become features: 13 of 13.",
    ]


def test_a_warning_is_printed_as_one(tmp_path):
    dataset = load(str(write_tables(tmp_path, "id,v\na,1\nb,2\n", "source,target\na,b\nb,x\nb,y\n")))
    text = "Nodes of edges.csv without a row in nodes.csv: 2 (50%), first 'x', 'y'."
    assert text in messages(dataset, "warning")
    assert f"Warning: {text}" in dataset.ingested.report.sentences


@pytest.mark.parametrize(("n_unlisted", "level"), [(1, "fixed"), (2, "fixed"), (3, "warning")])
def test_more_than_a_fifth_of_unlisted_nodes_is_a_warning(n_unlisted, level):
    nodes = pa.table({"id": [f"n{i}" for i in range(8)], "v": list(range(8))})
    edges = pa.table(
        {"source": ["n0", *(["n1"] * n_unlisted)], "target": ["n1", *(f"x{i}" for i in range(n_unlisted))]}
    )
    assert any("without a row" in text for text in messages(dataset_from_tables(nodes, edges), level))


def test_a_column_called_id_that_is_not_the_id_stays(tmp_path):
    nodes = "key,id,v\na,5,1\nb,6,2\nc,5,4\n"
    dataset = load(write_tables(tmp_path, nodes, "source,target\na,b\nb,c\n"), options=ReadOptions(id="key"))
    assert dataset.ingested.columns.column_names == ["id", "id (column)", "v"]
    assert dataset.ingested.columns["id (column)"].to_pylist() == [5, 6, 5]


def test_column_roles_can_be_given(tmp_path):
    nodes, edges = "who,key,kind\nx,ann,1\ny,bob,2\nz,cy,1\n", "n,a,b\n1,ann,bob\n2,bob,cy\n"
    options = ReadOptions(id="key", source="a", target="b", label="kind", columns=("who=category",))
    dataset = load(str(write_tables(tmp_path, nodes, edges)), options=options)
    assert dataset.graph.ids.tolist() == ["ann", "bob", "cy"]
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.feature_names == ["who=x", "who=y", "who=z"]


def test_a_table_without_edges_becomes_a_nearest_neighbor_graph(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"p{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(rng.normal(size=(40, 2))))
    (tmp_path / "points.csv").write_text("id,a,b\n" + rows)
    dataset = load(str(tmp_path / "points.csv"), options=ReadOptions(knn_graph=3))
    unit = dataset.graph.x / dataset.graph.x.norm(dim=1, keepdim=True)
    near = (unit @ unit.T).fill_diagonal_(-2).topk(3, dim=1).indices
    linked = set(map(tuple, dataset.graph.edge_index.T.tolist()))
    assert {(i, int(j)) for i in range(40) for j in near[i]} <= linked
    assert len(linked) <= 2 * 3 * 40


def test_the_file_of_nodes_can_be_given(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "people.csv").write_text("id,v\na,1\nb,2\n")
    (tmp_path / "pairs.csv").write_text("x,y\na,b\n")
    options = ReadOptions(nodes=str(tmp_path / "a" / "people.csv"))
    assert load(tmp_path / "pairs.csv", options=options).feature_names == ["v"]
    np.save(tmp_path / "features.npy", np.eye(2))
    (tmp_path / "pairs.csv").write_text("x,y\n0,1\n")
    options = ReadOptions(nodes=str(tmp_path / "features.npy"))
    assert torch.equal(load(tmp_path / "pairs.csv", options=options).graph.x.to_dense(), torch.eye(2))


def test_a_fitted_table_encoder_needs_its_columns(tmp_path):
    old = load_files(write_tables(tmp_path / "old", "id,age\na,1\nb,2\n", "source,target\na,b\n"))
    new = write_tables(tmp_path / "new", "id,size\nc,1\nd,2\n", "source,target\nc,d\n")
    with pytest.raises(UserError, match="no column 'age', which the model was trained with; its columns: 'size'"):
        load_files(new, fitted=old.graph.table_encoder)


def test_the_id_is_not_a_column_that_became_features(tmp_path):
    """New nodes are read with the roles of the old table, even if a feature looks like an id here."""
    old = load_files(write_tables(tmp_path / "old", "who,key\n" + "".join(f"p{i},{i % 3}\n" for i in range(9)),
                                  "source,target\np1,p2\n"), ReadOptions(id="who"))  # fmt: skip
    assert old.feature_names == ["key"]
    (tmp_path / "new_nodes.csv").write_text("who,key\nq1,1\nq2,2\n")
    dataset = load_files(tmp_path / "new_nodes.csv", fitted=old.graph.table_encoder, needs_edges=False)
    assert dataset.graph.ids.tolist() == ["q1", "q2"]


def test_new_edges_without_a_node_table_have_no_features(tmp_path):
    old = load_files(write_tables(tmp_path / "old", "id,age\na,1\nb,2\n", "source,target\na,b\n"))
    (tmp_path / "edges.csv").write_text("source,target\nc,a\n")
    dataset = load_files(tmp_path / "edges.csv", fitted=old.graph.table_encoder)
    assert dataset.ingested.n_listed == 0
    assert dataset.graph.x.to_dense().tolist() == [[0], [0]]


def test_structural_features_of_an_earlier_graph_are_used_again():
    edges = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    fitted = StructuralFeatures(mean=[1.0] * 5, scale=[2.0] * 5)
    assert dataset_from_tables(None, edges, fitted=fitted).graph.table_encoder == fitted
    assert dataset_from_tables(None, edges).graph.table_encoder != fitted


def test_a_table_needs_features_or_edges():
    ids = pa.table({"id": ["a", "b", "c"]})
    with pytest.raises(UserError, match="has neither features nor edges, so there is nothing to learn from"):
        dataset_from_tables(ids, None)
    with pytest.raises(UserError, match="A nearest-neighbor graph needs features, but the source has none"):
        dataset_from_tables(ids, None, ReadOptions(knn_graph=1))


@pytest.mark.parametrize("k", [1, 2])
def test_a_nearest_neighbor_graph_has_fewer_neighbors_than_nodes(k):
    nodes = pa.table({"id": ["a", "b", "c"], "v": [1.0, 2.0, 4.0], "w": [1.0, 3.0, 2.0]})
    dataset = dataset_from_tables(nodes, None, ReadOptions(knn_graph=k))
    assert f"Each node is linked to its {k} nearest neighbors by cosine similarity of features." in messages(dataset)
    assert dataset.graph.n_edges >= k
    for too_many in (0, 3):
        with pytest.raises(UserError, match=rf"must be from 1 to 2 \(the number of other nodes\), not {too_many}"):
            dataset_from_tables(nodes, None, ReadOptions(knn_graph=too_many))


def test_too_many_features_are_an_error(monkeypatch):
    nodes = pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3], "c": ["x", "y", "x"]})
    edges = pa.table({"source": ["a"], "target": ["b"]})
    monkeypatch.setattr("afgrl.data.tables.features.MAX_FEATURES", 3)
    assert dataset_from_tables(nodes, edges).graph.n_features == 3
    monkeypatch.setattr("afgrl.data.tables.features.MAX_FEATURES", 2)
    with pytest.raises(UserError, match="The columns of the node table become 3 features; at most 2 are possible"):
        dataset_from_tables(nodes, edges)
