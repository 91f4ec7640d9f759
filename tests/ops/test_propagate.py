import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GCNConv

from afgrl.graph import Graph
from afgrl.ops import SparseBlocks, hops, propagate
from afgrl.ops.propagate import HOP_LENGTH, smoothing


def test_smoothing_by_hand():
    graph = Graph(torch.eye(3), torch.tensor([[0], [1]]))  # 0 – 1, and 2 alone
    expected = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert torch.allclose(smoothing(graph).to_dense(), expected)


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


def test_multi_hop_blocks_by_float64_brute_force(small_graph):
    dense = smoothing(small_graph).to_dense().double().numpy()
    blocks = [small_graph.x.double().numpy()]
    for _ in range(2):
        blocks.append(dense @ blocks[-1])
    expected = np.hstack([HOP_LENGTH * block / np.linalg.norm(block, axis=1, keepdims=True) for block in blocks])
    assert np.allclose(propagate(small_graph, 2).x.numpy(), expected, atol=1e-4)


def test_sparse_and_dense_features_agree():
    draw = np.random.default_rng(0)
    x = sp.random_array((200, 500), density=0.002, rng=draw)
    edges = torch.from_numpy(draw.integers(0, 200, (2, 60)))
    for n_hops in (0, 1, 2):
        thick = propagate(Graph(x.toarray(), edges), n_hops).x
        factored = propagate(Graph(x, edges), n_hops).x  # so thin that it stays factored
        assert isinstance(factored, SparseBlocks)
        assert factored.shape == thick.shape
        assert torch.allclose(factored @ torch.eye(thick.shape[1]), thick, atol=1e-5)  # of rows of length 10
        if n_hops > 0:
            thin = hops(Graph(x, edges), n_hops)
            assert thin.layout == torch.sparse_csr
            assert torch.allclose(thin.to_dense(), thick, atol=1e-6)


def test_the_reference_needs_no_factors(monkeypatch):
    x, edges = sp.random_array((200, 500), density=0.002, rng=np.random.default_rng(0)), torch.tensor([[0], [1]])
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert isinstance(propagate(Graph(x, edges)).x, torch.Tensor)


def test_a_sparse_input_gives_the_weights_the_same_gradient():
    draw = np.random.default_rng(0)
    x = sp.random_array((50, 300), density=0.004, rng=draw)
    edges = torch.from_numpy(draw.integers(0, 50, (2, 20)))
    gradients = []
    for features in (x, x.toarray()):
        weight = torch.linspace(-1, 1, 300 * 4).reshape(300, 4).requires_grad_()
        (propagate(Graph(features, edges)).x @ weight).square().sum().backward()
        gradients.append(weight.grad)
    assert torch.allclose(*gradients, atol=1e-5)


def test_rows_of_zeros_stay_zero():
    graph = Graph(torch.zeros(3, 2), torch.tensor([[0], [1]]))
    assert torch.equal(propagate(graph, 2).x, torch.zeros(3, 6))
