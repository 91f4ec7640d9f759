"""Files that contain a whole graph, and arrays of features."""

import contextlib
import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from afgrl import UserError, load
from afgrl.data.convert import as_graph, from_pyg
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import messages


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, bool, ">f8", "<u2"])
def test_features_that_are_mostly_zero_may_have_any_type(dtype, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    np.save(tmp_path / "features.npy", np.eye(12).astype(dtype))
    assert torch.equal(load(tmp_path).graph.x.to_dense(), torch.eye(12))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_features_may_be_an_array(suffix, sparse, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    features = sp.random_array((4, 6), density=0.5, format="csr", rng=np.random.default_rng(0))
    if suffix == "npy":
        np.save(tmp_path / "features.npy", features.toarray())
    elif sparse:
        sp.save_npz(tmp_path / "features.npz", features)
    else:
        np.savez(tmp_path / "features.npz", features=features.toarray(), other=np.ones(3))
    graph = load(str(tmp_path)).graph
    assert graph.n == 4
    np.testing.assert_allclose(graph.x.to_dense(), features.toarray(), rtol=1e-6)


def test_nodes_without_a_row_of_features_get_zeros(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,7\n")
    np.save(tmp_path / "features.npy", np.ones((2, 3)))
    graph = load(tmp_path).graph
    assert graph.ids.tolist() == [0, 1, 7]
    assert graph.x.to_dense().tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]


def test_features_need_a_row_for_each_row_of_the_node_table(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    np.save(tmp_path / "features.npy", np.ones((3, 3)))
    with pytest.raises(UserError, match=r"The features have 3 rows, but nodes\.csv has 2 nodes"):
        load(tmp_path)


def test_an_archive_with_several_matrices_is_no_features(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    np.savez(tmp_path / "features.npz", a=np.ones((2, 3)), b=np.ones((2, 3)))
    with pytest.raises(UserError, match="contains no features or is damaged: it has 2 matrices instead of one"):
        load(tmp_path)


def test_an_adjacency_matrix_is_a_graph(tmp_path):
    matrix = sp.csr_array(np.array([[0, 1.0, 0], [0, 0, 2.0], [0, 0, 0]]))
    sp.save_npz(tmp_path / "roads.npz", matrix)
    assert load(str(tmp_path / "roads.npz")).graph.n_edges == 2
    with pytest.raises(UserError, match="--nodes cannot be used with an adjacency matrix"):
        load(tmp_path / "roads.npz", options=ReadOptions(nodes="nodes.csv"))


def test_weights_of_an_adjacency_matrix_can_be_ignored(tmp_path):
    file = tmp_path / "matrix.npz"
    sp.save_npz(file, sp.csr_array(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]])))
    assert sorted(load(str(file)).graph.edge_weight.tolist()) == [1, 1, 2, 2]
    assert load(str(file), options=ReadOptions(weight="none")).graph.edge_weight is None


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_networkx_files(tmp_path, suffix):
    graph = nx.karate_club_graph()
    for node, data in graph.nodes(data=True):
        data["age"] = float(node % 7)
    getattr(nx, f"write_{suffix}")(graph, tmp_path / f"club.{suffix}")
    dataset = load(str(tmp_path / f"club.{suffix}"))
    assert (dataset.graph.n, dataset.graph.n_edges) == (34, 78)
    assert "age" in dataset.feature_names
    assert any(name.startswith("club=") for name in dataset.feature_names)


def test_a_pyg_file(tmp_path):
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([2, 0, 2]))
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    dataset = load(str(tmp_path / "graph.pt"))
    assert torch.equal(dataset.graph.x.to_dense(), torch.eye(3))
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.ingested.classes == ["0", "2"]


def test_features_of_a_pyg_file_have_a_row_per_node(tmp_path):
    torch.save({"x": torch.ones(3), "edge_index": torch.tensor([[0, 1], [1, 2]])}, tmp_path / "graph.pt")
    with pytest.raises(UserError, match=r"must have shape \[nodes, features\], not \(3,\)"):
        load(tmp_path / "graph.pt")


def test_a_pyg_file_without_features(tmp_path):
    torch.save({"edge_index": torch.tensor([[0, 1], [1, 2]]), "num_nodes": 5}, tmp_path / "graph.pt")
    graph = load(tmp_path / "graph.pt").graph
    assert (graph.n, graph.n_isolated) == (5, 2)
    torch.save({"edge_index": torch.tensor([[0, 1], [1, 2]])}, tmp_path / "graph.pt")
    assert load(tmp_path / "graph.pt").graph.n == 3


def test_a_negative_label_of_a_pyg_file_means_unlabeled(tmp_path):
    file = tmp_path / "data.pt"
    torch.save({"x": torch.eye(3), "edge_index": torch.tensor([[0, 1], [1, 2]]), "y": torch.tensor([4, -1, 2])}, file)
    dataset = load(str(file))
    assert dataset.y.tolist() == [1, -1, 0]
    assert dataset.n_classes == 2


EDGE_ATTRIBUTES = {
    "one column": (torch.tensor([[1.0], [1.0], [2.0], [2.0]]), True),
    "no columns": (torch.tensor([1, 1, 2, 2]), True),
    "two columns": (torch.ones(4, 2), False),
    "one negative": (torch.tensor([[1.0], [-1.0], [2.0], [2.0]]), False),
    "complex numbers": (torch.ones(4, 1, dtype=torch.complex64), False),
    "text": ("heavy", False),
}


@pytest.mark.parametrize(("attribute", "is_weight"), EDGE_ATTRIBUTES.values(), ids=EDGE_ATTRIBUTES.keys())
def test_attributes_of_edges_are_weights_if_they_can_be(attribute, is_weight, tmp_path):
    """In a file and in a ``Data``; what is ignored is a warning."""
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_attr=attribute)
    torch.save(data.to_dict(), tmp_path / "data.pt")
    for source in (tmp_path / "data.pt", data):
        dataset = load(source)
        assert (dataset.graph.edge_weight is not None) == is_weight
        assert any("'edge_attr'" in text for text in messages(dataset, "info" if is_weight else "warning"))
        assert load(source, weight="none").graph.edge_weight is None
    with contextlib.nullcontext() if is_weight else pytest.warns(UserWarning, match="Ignored in the PyG Data"):
        assert (from_pyg(data).edge_weight is not None) == is_weight
    data.edge_weight = torch.tensor([1.0, 1.0, 3.0, 3.0])
    dataset = load(data)
    assert dataset.graph.edge_weight.tolist() == [1, 1, 3, 3]
    assert any("because the weights are in 'edge_weight'" in text for text in messages(dataset, "warning"))


@pytest.mark.parametrize("vectors", [False, True])
def test_relations_that_are_ignored_are_named(vectors):
    network = nx.MultiDiGraph()
    network.add_edge("a", "b", key="likes")
    network.add_edge("a", "b", key="hates", since=2020)
    if vectors:
        nx.set_node_attributes(network, {"a": [1.0], "b": [2.0]}, "x")
    text = "Ignored attributes of the edges: 'key', 'since'; an edge has only a weight."
    assert text in messages(load(network), "warning")
    with pytest.warns(UserWarning, match=re.escape(text)):
        as_graph(network)
    network = nx.Graph()
    network.add_edge("a", "b", since=2020)
    assert text.replace("'key', ", "") in messages(load(network), "info")


def test_edges_of_files_have_ids_and_no_relations(tmp_path):
    network = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    for suffix in ("graphml", "gexf"):
        getattr(nx, f"write_{suffix}")(network, tmp_path / f"net.{suffix}")
        assert not any("Ignored" in text for text in messages(load(tmp_path / f"net.{suffix}")))
    nx.set_edge_attributes(network, "knows", "relation")
    nx.write_graphml(network, tmp_path / "net.graphml")
    assert any("'relation'" in text for text in messages(load(tmp_path / "net.graphml"), "warning"))


def test_weights_of_a_pyg_file(tmp_path):
    edges, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, 1.0, 2.0, 2.0])
    file = tmp_path / "data.pt"
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight}, file)
    assert load(str(file)).graph.edge_weight.tolist() == weight.tolist()
    assert load(str(file), options=ReadOptions(weight="none")).graph.edge_weight is None
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight[:2]}, file)
    with pytest.raises(UserError, match=r"data.pt has 4 edges but 2 edge weights"):
        load(str(file))
