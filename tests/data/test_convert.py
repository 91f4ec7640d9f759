"""Graphs from PyG, SciPy, pandas and NetworkX."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from afgrl import AFGRL, Dataset, Graph, UserError
from afgrl.data.convert import as_graph, from_networkx, from_pandas, from_pyg, from_scipy

PATH = torch.tensor([[0, 1], [1, 2]])  # 0 – 1 – 2
EYE = torch.eye(3)
NODES = pd.DataFrame({"id": list("abc"), "size": [1.0, 2.0, 3.0]})
EDGES = pd.DataFrame({"source": list("ab"), "target": list("bc")})


def weights(graph):
    return dict(zip(zip(*graph.edge_index.tolist(), strict=True), graph.edge_weight.tolist(), strict=True))


def path_with_vectors():
    network = nx.Graph()
    network.add_nodes_from([(i, {"x": [float(i)]}) for i in range(3)])
    return network


def test_every_source_gives_the_same_graph():
    adjacency = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    network = nx.Graph([(0, 1), (1, 2)])
    nx.set_node_attributes(network, {i: EYE[i].tolist() for i in range(3)}, "x")
    sources = [
        Graph(EYE, PATH),
        Dataset("path", Graph(EYE, PATH), np.array([0, 1, 0])),
        Data(x=EYE, edge_index=PATH, y=torch.tensor([0, 1, 0])),
        (adjacency, EYE.numpy()),
        (sp.csr_matrix(adjacency), sp.csr_matrix(np.eye(3))),
        network,
    ]
    for source in sources:
        graph = as_graph(source)
        assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert torch.equal(graph.x.to_dense(), EYE)
        assert not hasattr(graph, "y")


def half_filled():
    network = nx.path_graph(2)
    network.nodes[0]["x"] = 1.0
    return network


def of_different_lengths():
    network = nx.path_graph(2)
    nx.set_node_attributes(network, {0: [1.0], 1: [1.0, 2.0]}, "x")
    return network


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (3, "An object of type int is not a graph"),
        (Data(x=EYE), "has no 'edge_index'"),
        (Data(edge_index=PATH), "has no 'x'"),
        ((np.zeros((2, 3)), np.eye(2)), "must be square"),
        ((np.zeros((2, 2)), np.eye(3)), "2 nodes but the features have 3 rows"),
        (half_filled(), "Node 1 of the NetworkX graph has no attribute 'x'"),
        (of_different_lengths(), "The attribute 'x' must have the same length for all nodes"),
    ],
)
def test_an_invalid_source_is_an_error(source, sentence):
    with pytest.raises(UserError, match=sentence):
        as_graph(source)


def test_a_matrix_of_zeros_and_ones_has_no_weights():
    assert from_scipy(np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]]), np.eye(3)).edge_weight is None


def test_stored_zeros_of_a_matrix_are_not_edges():
    matrix = sp.coo_array((np.array([1.0, 0.0]), (np.array([0, 1]), np.array([1, 2]))), shape=(3, 3))
    assert from_scipy(matrix, np.eye(3)).n_edges == 1
    assert matrix.nnz == 2  # the user's matrix does not change


def test_every_source_may_have_weights():
    expected = {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 2.0, (2, 1): 2.0}
    both = torch.cat([PATH, PATH.flip(0)], dim=1)
    assert weights(from_pyg(Data(x=EYE, edge_index=both, edge_weight=torch.tensor([1.0, 2, 1, 2])))) == expected
    assert weights(from_scipy(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]), np.eye(3))) == expected
    network = path_with_vectors()
    network.add_edge(0, 1)
    network.add_edge(1, 2, weight=2.0)
    assert weights(from_networkx(network)) == {ends: weight / 2 for ends, weight in expected.items()}
    network.add_edge(0, 2, weight="much")
    with pytest.raises(UserError, match="attribute 'weight' must be a number"):
        from_networkx(network)
    edges = EDGES.assign(strength=[2.0, 4.0])
    assert weights(from_pandas(NODES, edges, weight="strength")) == expected


def test_weights_of_parallel_networkx_edges_are_added():
    network = nx.MultiGraph(path_with_vectors())
    network.add_edges_from([(0, 1), (0, 1), (1, 2)])
    assert from_networkx(network).edge_weight is None
    nx.set_edge_attributes(network, 1.0, "weight")
    assert weights(from_networkx(network)) == {(0, 1): 1, (1, 0): 1, (1, 2): 0.5, (2, 1): 0.5}


def test_a_directed_graph_keeps_its_directions():
    expected = [[0, 1], [1, 2]]
    network = nx.DiGraph([(0, 1), (1, 2)])
    nx.set_node_attributes(network, 1.0, "x")
    adjacency = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert from_networkx(network, directed=True).edge_index.tolist() == expected
    assert from_scipy(adjacency, np.eye(3), directed=True).edge_index.tolist() == expected
    assert from_pyg(Data(x=EYE, edge_index=PATH), directed=True).edge_index.tolist() == expected


def test_names_of_networkx_nodes_become_ids():
    network = nx.DiGraph([("anna", "bo")])
    nx.set_node_attributes(network, {"anna": 1.0, "bo": 2.0}, "age")
    graph = from_networkx(network, features="age")
    assert graph.ids.tolist() == ["anna", "bo"]
    assert graph.x.tolist() == [[1.0], [2.0]]
    pairs = nx.Graph([((0, 0), (0, 1))])
    nx.set_node_attributes(pairs, 1.0, "x")
    assert as_graph(pairs).ids.tolist() == ["(0, 0)", "(0, 1)"]


def test_ids_can_be_given():
    assert from_pyg(Data(x=EYE, edge_index=PATH), ids=["a", "b", "c"]).ids.tolist() == ["a", "b", "c"]
    assert from_scipy(np.eye(3), np.eye(3), ids=["a", "b", "c"]).ids.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("network", [nx.karate_club_graph(), nx.cycle_graph(34)], ids=["attributes", "nothing"])
def test_networkx_graphs_without_vectors(network):
    graph = from_networkx(network)
    assert graph.ids.tolist() == list(range(34))
    assert (graph.table_encoder.names == ["club=Mr. Hi", "club=Officer"]) == ("club" in network.nodes[0])
    model = AFGRL(epochs=2, n_components=8, device="cpu").fit(network)
    np.testing.assert_allclose(model.transform(network), model.embedding_, atol=1e-6)
    with pytest.raises(UserError, match="has no attribute 'age'"):
        from_networkx(network, features="age")


def test_attributes_of_several_types_become_categories():
    network = nx.path_graph(4)
    nx.set_node_attributes(network, {0: 1, 1: "x", 2: "x", 3: None}, "kind")
    assert from_networkx(network).table_encoder.names == ["kind=1", "kind=x"]


def test_the_index_of_a_data_frame_may_be_the_id():
    nodes = pd.DataFrame({"age": [30, 41, 25], "city": ["Rome", "Oslo", "Rome"]}, index=["a", "b", "c"])
    graph = from_pandas(nodes, EDGES)
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.n_features == 3
    assert as_graph((nodes, EDGES)).n_edges == 2
    named = nodes.rename_axis("key").reset_index()
    assert from_pandas(named, EDGES, columns={"city": "ignore"}).n_features == 1


def test_a_data_frame_may_have_columns_of_several_types_and_names_that_are_no_text():
    nodes = pd.DataFrame({"id": list("abc"), 7: [1, "x", "x"]})
    assert from_pandas(nodes, EDGES).table_encoder.names == ["7=1", "7=x"]


def test_an_empty_data_frame_is_an_error():
    with pytest.raises(UserError, match="The node table has no rows"):
        from_pandas(NODES[:0], EDGES)
    with pytest.raises(UserError, match="The edge table has no rows"):
        from_pandas(NODES, EDGES[:0])


def test_swapped_tables_are_an_error():
    with pytest.raises(UserError, match="pass nodes first, then edges"):
        from_pandas(EDGES, NODES)
    with pytest.raises(UserError, match="pass nodes first, then edges"):
        AFGRL(device="cpu").fit((EDGES, NODES))


def test_fixes_and_warnings_become_python_warnings():
    edges = pd.DataFrame({"source": ["a", "b", "b"], "target": ["b", "c", "b"]})
    with pytest.warns(UserWarning, match=r"^Self-loops of the edge table, dropped: 1\.$") as caught:
        from_pandas(NODES, edges)
    assert len(caught) == 1  # none for information
    assert caught[0].filename == __file__


def test_new_tables_are_encoded_like_earlier_ones():
    earlier = from_pandas(NODES, EDGES)
    one = NODES.assign(size=[2.0, 2.0, 2.0])
    for like in (earlier, earlier.table_encoder):
        assert not from_pandas(one, EDGES, like=like).x.to_dense().any()  # 2 was the mean
        assert not as_graph((one, EDGES), like=like).x.to_dense().any()
    with pytest.raises(UserError, match="The graph passed as `like` was not made from tables"):
        from_pandas(one, EDGES, like=Graph(EYE, PATH))
