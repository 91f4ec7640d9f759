"""What is particular to the compared methods; what they share is in tests/test_methods.py."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import DeepGraphInfomax, GCNConv

from afgrl.config import resolve
from afgrl.graph import Graph
from afgrl.methods import Size, methods
from afgrl.methods.bgrl import BGRLConfig
from afgrl.methods.deepwalk import _stride
from afgrl.methods.dgi import Discriminator
from afgrl.methods.views import uniform_views
from afgrl.nn import GCN, Progress, gcn_inputs
from afgrl.train import start, train
from tests.conftest import communities
from tests.test_methods import begun

CPU = torch.device("cpu")


def test_two_layers_are_those_of_pyg(small_graph, rng):
    ours = GCN([small_graph.n_features, 6, 4], "relu", "none", rng)
    inputs = gcn_inputs(small_graph, to_sum_one=False)
    h = small_graph.x
    for depth in range(2):
        theirs = GCNConv(h.shape[1], ours.weights[depth].shape[1])
        theirs.lin.weight.data = ours.weights[depth].detach().T.clone()
        h = theirs(h, small_graph.edge_index).relu()
    assert torch.allclose(ours(inputs), h, atol=1e-5)  # sums in another order


def test_masked_features_count_nothing(small_graph, rng):
    encoder = GCN([small_graph.n_features, 6], "prelu", "none", rng)
    kept = (torch.arange(small_graph.n_features) % 3 > 0).float()
    masked = Graph(small_graph.x * kept, small_graph.edge_index)
    ours = encoder(gcn_inputs(small_graph, to_sum_one=False), kept=kept)
    assert torch.allclose(ours, encoder(gcn_inputs(masked, to_sum_one=False)), atol=1e-6)


def test_rows_are_scaled_to_sum_one_dense_or_sparse(small_graph, rng):
    weight = torch.randn(small_graph.n_features, 3, generator=rng)
    sparse = Graph(small_graph.x.abs().to_sparse_csr(), small_graph.edge_index)
    dense = Graph(small_graph.x.abs(), small_graph.edge_index)
    expected = (dense.x / dense.x.sum(1, keepdim=True)) @ weight
    for graph in (sparse, dense):
        assert torch.allclose(gcn_inputs(graph, to_sum_one=True).x @ weight, expected, atol=1e-5)


def test_dgis_loss_is_pygs(rng):
    real, corrupted = (torch.randn(20, 6, generator=rng) for _ in range(2))
    ours = Discriminator(6, rng)
    theirs = DeepGraphInfomax(6, nn.Identity(), lambda z, *a, **k: torch.sigmoid(z.mean(0)), lambda *a: a)
    theirs.weight.data = ours.weight.detach().clone()
    summary = torch.sigmoid(real.mean(0))
    loss = ours(real, corrupted, real).item()
    # PyG adds 1e-15 inside its logarithms, and does not halve the sum.
    assert loss == pytest.approx(theirs.loss(real, corrupted, summary).item() / 2, rel=1e-5)


def test_bgrls_loss_by_hand(small_graph):
    state, inputs = begun("bgrl", small_graph, drop_edges_1=0, drop_edges_2=0, drop_features_1=0, drop_features_2=0)
    method = state.method.train()
    with torch.no_grad():
        loss = method.loss(inputs, state.rng)
        z, t = method.predictor(method.encoder(inputs.gcn)), method.target(inputs.gcn)
    assert float(loss) == pytest.approx(2 - 2 * float(F.cosine_similarity(z, t).mean()), abs=1e-5)


def test_bgrls_step_size_rises_and_falls():
    method = methods()["bgrl"]
    config = BGRLConfig(epochs=1000, learning_rate=0.1, warmup=0.1, n_components=2, hidden_width=2)
    model = method(config, Size(5, 3), torch.Generator())
    rates = [model.learning_rate(Progress(step, 1000)) for step in (1, 50, 100, 550, 999)]
    assert rates == pytest.approx([0.001, 0.05, 0.1, 0.1 * (1 + math.cos(math.pi / 2)) / 2, 0], abs=1e-6)


def test_views_lack_what_they_should(rng):
    graph = communities(size=60)
    config = resolve(BGRLConfig, {"drop_edges_1": 0.5, "drop_edges_2": 0.0, "drop_features_1": 1.0})
    inputs = uniform_views(graph, config)
    (edges, features), (other_edges, other_features) = inputs.drops
    loops = inputs.gcn.links.is_loop
    assert (edges[loops] == 0).all()
    assert (edges[~loops] == 0.5).all()
    assert (features == 1).all()
    assert (other_edges == 0).all()
    assert torch.equal(other_features, torch.full((graph.n_features,), 0.1))


@pytest.mark.parametrize("centrality", ["degree", "pagerank", "eigenvector"])
def test_gca_spares_what_is_central(centrality):
    spokes = torch.stack([torch.zeros(9, dtype=torch.int64), torch.arange(1, 10)])
    graph = Graph(torch.eye(11) + 0.01, torch.cat([spokes, torch.tensor([[9], [10]])], dim=1))
    _, inputs = begun("gca", graph, centrality=centrality, drop_edges_1=0.4, drop_features_1=0.4)
    links, (edges, features) = inputs.gcn.links, inputs.drops[0]
    assert (edges[links.is_loop] == 0).all()
    to_hub, to_leaf = (links.target == 0) & (links.source == 1), (links.target == 1) & (links.source == 0)
    assert edges[to_hub] < edges[to_leaf] <= 0.7
    assert features[0] < features[1]  # feature 0 is the hub's


def test_mvgrl_looks_through_heat_too(small_graph):
    vectors = {}
    for diffusion in ("ppr", "heat"):
        state, inputs = begun("mvgrl", small_graph, diffusion=diffusion, epochs=3)
        train(state, inputs)
        vectors[diffusion] = state.method.represent(inputs)
    assert not torch.allclose(vectors["ppr"], vectors["heat"])


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 100])
def test_walks_begin_at_every_node_once_in_a_pass(n):
    assert sorted((torch.arange(n) * _stride(n) % n).tolist()) == list(range(n))


def test_nodes_without_edges_get_zeros_from_walks(small_graph):
    state, inputs = begun("deepwalk", small_graph)
    train(state, inputs)
    vectors = state.method.represent(inputs)
    degree = torch.bincount(small_graph.edge_index[0], minlength=small_graph.n)
    assert torch.equal(vectors.any(1), degree > 0)


def taught(graph, y, train_nodes, validation, **settings):
    config = methods()["supervised_gcn"].Config(n_classes=3, n_splits=len(train_nodes), **settings)
    state, inputs = start("supervised_gcn", config, graph, CPU)
    state.method.learn_from(y, train_nodes, validation)
    train(state, inputs)
    return state.method.predict(inputs)


def test_a_supervised_network_learns_from_its_own_nodes_only():
    graph = communities(n_isolated=0)
    y, part = torch.arange(60) // 20, torch.arange(60) % 3
    roles = torch.stack([part == 0, part == 1]), torch.stack([part == 1, part == 2])
    expected = taught(graph, y, *roles, epochs=30, n_components=8)
    for split, unseen in enumerate((part == 2, part == 0)):
        other = torch.where(unseen, (y + 1) % 3, y)  # labels that this split must not see
        assert torch.equal(taught(graph, other, *roles, epochs=30, n_components=8)[split], expected[split])
    accuracy = (expected == y).float().mean(1)
    assert (accuracy > 0.8).all()  # the groups are linked and look alike


def test_networks_of_several_splits_do_not_disturb_each_other():
    graph = communities(n_isolated=0)
    y, part = torch.arange(60) // 20, torch.arange(60) % 3
    first, second = (part == 0)[None], (part == 1)[None]
    # Without dropout nothing is drawn after the first weights, which are drawn split by split.
    alone = taught(graph, y, first, second, epochs=20, n_components=8, dropout=0.0)
    both = taught(
        graph, y, torch.cat([first, second]), torch.cat([second, first]), epochs=20, n_components=8, dropout=0.0
    )
    assert torch.equal(alone[0], both[0])


def test_no_other_method_has_a_door_for_labels():
    for name, method in methods().items():
        assert hasattr(method, "learn_from") == (name == "supervised_gcn")
