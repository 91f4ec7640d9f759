import pytest
import torch
from torch.nn import functional as F

from afgrl.config import resolve
from afgrl.methods import ns4gc
from afgrl.methods.ns4gc import NS4GCSettings
from tests.conftest import weighted
from tests.methods.short_runs import start_run, train_run
from tests.methods.test_views import WITHOUT_DROPS


def brute_force(h1, h2, graph, settings, drawn=None):
    """The loss as the authors write it, from all n² similarities, in float64; others only from columns ``drawn``."""
    n, (source, target) = graph.n, graph.edge_index
    s = F.normalize(h1.double()) @ F.normalize(h2.double()).T
    weight = torch.ones(len(source)) if graph.edge_weight is None else graph.edge_weight
    on_edges = -(weight * s[target, source]).sum() / weight.sum()
    other = torch.ones(n, n, dtype=torch.bool).fill_diagonal_(False)
    other[target, source] = False
    columns = torch.arange(n) if drawn is None else drawn
    pushed = torch.sigmoid((s[:, columns][other[:, columns]] - settings.threshold) / settings.temperature).mean()
    return -s.diagonal().mean() + settings.edge_weight * on_edges + settings.pair_weight * pushed


# The last two columns are those of one node, which then counts twice.
@pytest.mark.parametrize(
    ("use_weights", "drawn"), [(False, None), (True, None), (False, [3, 0, 7, 7]), (True, [30, 2, 1, 5, 5])]
)
def test_the_loss_and_its_gradient_equal_brute_force(small_graph, use_weights, drawn, monkeypatch):
    graph = weighted(small_graph) if use_weights else small_graph
    options = {"edge_weight": 0.7, "pair_weight": 1.3, "threshold": 0.2, "temperature": 0.2}
    if drawn:
        drawn, options = torch.tensor(drawn), options | {"n_negatives": len(drawn)}
        monkeypatch.setattr(torch, "randint", lambda n, shape, **_: drawn)
    state, inputs = start_run("ns4gc", graph, **options | WITHOUT_DROPS)
    method, first = state.method.train(), state.method.encoder.weights[0]
    loss = method.loss(inputs, state.rng)
    (gradient,) = torch.autograd.grad(loss, first)
    h = method.encoder(inputs.gcn)
    expected = brute_force(h, h, graph, method.settings, drawn)
    (expected_gradient,) = torch.autograd.grad(expected, first)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)  # float32 against float64
    assert torch.allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-4 * float(expected_gradient.abs().max()))


def test_large_graphs_are_compared_with_random_nodes(small_graph, monkeypatch):
    assert resolve(NS4GCSettings, graph=small_graph).n_negatives == 0
    monkeypatch.setattr(ns4gc, "MOST_IN_FULL", small_graph.n - 1)
    assert resolve(NS4GCSettings, graph=small_graph).n_negatives == 1024
    assert resolve(NS4GCSettings, {"n_negatives": 7}, graph=small_graph).n_negatives == 7


def test_random_nodes_repel_like_all_nodes(small_graph):
    options = {"epochs": 60, "learning_rate": 0.01, "n_negatives": 8} | WITHOUT_DROPS
    _, vectors = train_run("ns4gc", small_graph, **options)
    assert float((vectors @ vectors.T > 0.6).float().mean()) < 0.45  # as with all nodes, below


def test_all_other_pairs_stay_below_the_threshold(small_graph):
    """Without the third term nothing repels, and all vectors become equal."""
    similar = {}
    for weight in (0.0, 1.0):
        options = {"pair_weight": weight, "epochs": 60, "learning_rate": 0.01} | WITHOUT_DROPS
        _, vectors = train_run("ns4gc", small_graph, **options)
        similar[weight] = float((vectors @ vectors.T > 0.6).float().mean())
    assert similar[1.0] < 0.45  # a third of the pairs share a group
    assert similar[0.0] > 0.9


def test_the_vectors_have_unit_length(small_graph):
    _, vectors = train_run("ns4gc", small_graph)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(small_graph.n), atol=1e-5)
