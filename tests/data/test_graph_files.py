"""Files that contain a whole graph, and arrays of features."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from afgrl import UserError, load
from afgrl.data.tables.options import ReadOptions


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


def test_weights_of_a_pyg_file(tmp_path):
    edges, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, 1.0, 2.0, 2.0])
    file = tmp_path / "data.pt"
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight}, file)
    assert load(str(file)).graph.edge_weight.tolist() == weight.tolist()
    assert load(str(file), options=ReadOptions(weight="none")).graph.edge_weight is None
    torch.save({"x": torch.eye(3), "edge_index": edges, "edge_weight": weight[:2]}, file)
    with pytest.raises(UserError, match=r"data.pt has 4 edges but 2 edge weights"):
        load(str(file))
