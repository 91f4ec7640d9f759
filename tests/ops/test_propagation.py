"""The normalized adjacency matrix and precomputed propagation: by hand, against float64, PyG and dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GCNConv

from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.ops import storage
from afgrl.ops.propagation import (
    HOP_LENGTH,
    adjacency,
    factored_bytes,
    factored_nnz,
    layer_input,
    multi_hop_features,
    propagate,
)
from afgrl.ops.propagation.adjacency import edge_numbers, gcn_adjacency, gcn_norm, gcn_values
from afgrl.ops.sparse.cpu import FactoredTable
from tests.conftest import weighted
from tests.ops.test_sparse import dense


def normalized(adjacency):
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale


def test_gcn_norm_by_hand():
    graph = Graph(torch.eye(3), torch.tensor([[0], [1]]))  # 0 – 1, and 2 isolated
    expected = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert torch.allclose(gcn_norm(graph).to_dense(), expected)


def test_gcn_norm_of_edge_weights_equals_float64(small_graph):
    graph = weighted(small_graph)
    adjacency = torch.eye(graph.n, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = graph.edge_weight.double() / graph.edge_weight.double().mean()
    assert torch.allclose(gcn_norm(graph).to_dense().double(), normalized(adjacency), atol=1e-7)


def test_values_of_all_edges_equal_gcn_norm(small_graph):
    adjacency = gcn_adjacency(small_graph)
    assert adjacency.values is None
    assert torch.equal(dense(adjacency, gcn_values(adjacency)), gcn_norm(small_graph).to_dense())


def test_values_of_some_edges_are_those_of_the_graph_without_the_others(small_graph, rng):
    adjacency = gcn_adjacency(small_graph)
    mask = (torch.rand(adjacency.nnz, generator=rng) > 0.4) | adjacency.on_diagonal
    expected = normalized(dense(adjacency, mask.float()))
    assert torch.allclose(dense(adjacency, gcn_values(adjacency, mask.float())), expected, atol=1e-7)


def test_values_of_weighted_edges(small_graph, rng):
    graph = weighted(small_graph)
    adjacency = gcn_adjacency(graph)
    assert torch.allclose(dense(adjacency, gcn_values(adjacency)), gcn_norm(graph).to_dense(), atol=1e-7)
    mask = (torch.rand(adjacency.nnz, generator=rng) > 0.4) | adjacency.on_diagonal
    expected = normalized(dense(adjacency, adjacency.values * mask))
    assert torch.allclose(dense(adjacency, gcn_values(adjacency, mask.float())), expected, atol=1e-7)


@pytest.mark.parametrize("directed", [False, True])
def test_every_entry_has_the_number_of_its_edge(small_graph, directed):
    edges = small_graph.edge_index
    graph = Graph(small_graph.x, edges[:, edges[0] < edges[1]] if directed else edges, directed=directed)
    adjacency = gcn_adjacency(graph)
    number = edge_numbers(adjacency, graph)
    assert torch.equal(number < 0, adjacency.on_diagonal)
    source, target = graph.edge_index[:, number[number >= 0]]
    assert torch.equal(source, adjacency.indices[number >= 0])
    assert torch.equal(target, adjacency.rows[number >= 0])


def test_entries_of_a_graph_without_edges_are_self_loops():
    isolated = Graph(torch.ones(3, 1), torch.empty(2, 0))
    assert edge_numbers(gcn_adjacency(isolated), isolated).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_propagation_is_a_gcn_layer(small_graph, directed, sparse):
    x = sp.csr_array(small_graph.x.numpy()) if sparse else small_graph.x
    edges = small_graph.edge_index
    graph = Graph(x, edges[:, edges[0] < edges[1]] if directed else edges, directed=directed)
    layer = GCNConv(graph.n_features, 7)
    weight = layer.lin.weight.T
    ours = propagate(graph).x @ weight + layer.bias
    assert torch.allclose(ours, layer(small_graph.x, graph.edge_index), atol=1e-5)  # float32 sums in another order


def test_blocks_of_rows_have_the_same_bits(small_graph, monkeypatch):
    expected = multi_hop_features(replace(small_graph, x=small_graph.x.to_dense()), 2)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 7)
    assert torch.equal(multi_hop_features(replace(small_graph, x=small_graph.x.to_dense()), 2), expected)


def test_multi_hop_blocks_equal_float64(small_graph):
    s = gcn_norm(small_graph).to_dense().double().numpy()
    blocks = [small_graph.x.double().numpy()]
    for _ in range(2):
        blocks.append(s @ blocks[-1])
    expected = np.hstack([HOP_LENGTH * block / np.linalg.norm(block, axis=1, keepdims=True) for block in blocks])
    assert np.allclose(propagate(small_graph, 2).x.numpy(), expected, atol=1e-4)


def test_sparse_and_dense_features_agree():
    draw = np.random.default_rng(0)
    x = sp.random_array((200, 500), density=0.002, rng=draw)
    edges = torch.from_numpy(draw.integers(0, 200, (2, 60)))
    for n_hops in (0, 1, 2):
        from_dense = propagate(Graph(x.toarray(), edges), n_hops).x
        factored = propagate(Graph(x, edges), n_hops).x  # so sparse that it stays factored
        assert isinstance(factored, FactoredTable)
        assert factored.shape == from_dense.shape
        assert torch.allclose(factored @ torch.eye(from_dense.shape[1]), from_dense, atol=1e-5)  # rows of length 10
        if n_hops > 0:
            from_sparse = multi_hop_features(Graph(x, edges), n_hops)
            assert from_sparse.layout == torch.sparse_csr
            assert torch.allclose(from_sparse.to_dense(), from_dense, atol=1e-6)


@pytest.mark.parametrize("n_hops", [0, 1, 3])
def test_factors_share_their_indices_and_take_the_predicted_memory(n_hops):
    draw = np.random.default_rng(0)
    graph = Graph(sp.random_array((200, 500), density=0.01, rng=draw), torch.from_numpy(draw.integers(0, 200, (2, 60))))
    propagated = propagate(graph, n_hops)
    matrices = [matrix for block in propagated.x.blocks for matrix in block]
    entries = ("rows", "indices", "indices_t", "order_t", "values")
    tensors = {part.data_ptr(): part for matrix in matrices for part in (getattr(matrix, name) for name in entries)}
    for shared in (graph.x.values(), propagated.adjacency.values()):
        tensors.pop(shared.data_ptr(), None)
    nnz, nnz_adjacency = graph.x.values().numel(), propagated.adjacency.values().numel()
    assert sum(part.nbytes for part in tensors.values()) == factored_bytes(nnz, nnz_adjacency, n_hops)
    assert sum(matrix.nnz for matrix in matrices) == factored_nnz(nnz, nnz_adjacency, n_hops)


def test_the_reference_does_not_factor(monkeypatch):
    x, edges = sp.random_array((200, 500), density=0.002, rng=np.random.default_rng(0)), torch.tensor([[0], [1]])
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert isinstance(propagate(Graph(x, edges)).x, torch.Tensor)


def test_a_sparse_input_gives_weights_the_same_gradient():
    draw = np.random.default_rng(0)
    x = sp.random_array((50, 300), density=0.004, rng=draw)
    edges = torch.from_numpy(draw.integers(0, 50, (2, 20)))
    gradients = []
    for features in (x, x.toarray()):
        weight = torch.linspace(-1, 1, 300 * 4).reshape(300, 4).requires_grad_()
        (propagate(Graph(features, edges)).x @ weight).square().sum().backward()
        gradients.append(weight.grad)
    assert torch.allclose(*gradients, atol=1e-5)


@pytest.mark.parametrize("to_sum_one", [False, True])
@pytest.mark.parametrize(("density", "factored"), [(0.01, True), (0.2, False)])
def test_the_input_of_a_layer_is_x_in_the_faster_layout(to_sum_one, density, factored, monkeypatch):
    x = sp.random_array((60, 40), density=density, rng=np.random.default_rng(0))
    table = layer_input(Graph(x, torch.tensor([[0], [1]])), to_sum_one=to_sum_one)
    assert isinstance(table, FactoredTable) is factored
    expected = torch.from_numpy(x.toarray()).float()
    if to_sum_one:
        expected = torch.nn.functional.normalize(expected, p=1.0)
    assert torch.allclose(table @ torch.eye(40), expected, atol=1e-6)
    monkeypatch.setenv("AFGRL_OPS", "reference")
    reference = layer_input(Graph(x, torch.tensor([[0], [1]])), to_sum_one=to_sum_one)
    assert torch.allclose(reference, expected, atol=1e-6)


def test_zero_rows_stay_zero():
    graph = Graph(torch.zeros(3, 2), torch.tensor([[0], [1]]))
    assert torch.equal(propagate(graph, 2).x, torch.zeros(3, 6))


@pytest.mark.parametrize("with_weights", [False, True])
def test_rows_of_the_normalized_adjacency_are_those_of_the_whole(rng, monkeypatch, with_weights):
    monkeypatch.setattr(adjacency, "BLOCK_EDGES", 13)
    edges = torch.randint(40, (2, 150), generator=rng)
    graph = Graph(torch.ones(50, 1), edges, edge_weight=torch.rand(150, generator=rng) + 0.1 if with_weights else None)
    dense = torch.zeros(50, 50)
    dense[tuple(graph.edge_index)] = 1 if graph.edge_weight is None else graph.edge_weight / graph.edge_weight.mean()
    dense += torch.eye(50)
    scale = dense.sum(1).rsqrt()
    expected = scale[:, None] * dense * scale
    whole = adjacency.gcn_norm(graph)
    assert torch.allclose(whole.to_dense(), expected, atol=1e-6)
    assert torch.equal(whole.to_dense(), adjacency._sorted_by_receiver(graph).to_dense())  # by another way
    in_files = MappedGraph(graph.x, graph.edge_index.to(torch.int32), False, graph.edge_weight)
    edges = graph.edge_index[0] * 50 + graph.edge_index[1]
    for begin, end in ((0, 50), (0, 17), (17, 50), (41, 46), (50, 50)):
        rows = adjacency.gcn_norm_rows(in_files, begin, end)
        assert torch.equal(rows.to_dense(), adjacency.gcn_norm_rows(graph, begin, end).to_dense())
        own = adjacency.edge_numbers_from(in_files, begin, end)
        assert torch.equal(own, edges[(edges >= begin * 50) & (edges < end * 50)])
        assert rows.shape == (end - begin, 50)
        assert torch.equal(rows.to_dense(), whole.to_dense()[begin:end])
        columns = whole.col_indices()[whole.crow_indices()[begin] : whole.crow_indices()[end]]
        assert torch.equal(rows.col_indices(), columns)
