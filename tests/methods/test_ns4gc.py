import pytest
import torch
from torch.nn import functional as F

from tests.conftest import weighted
from tests.methods.short_runs import start_run, train_run
from tests.methods.test_views import WITHOUT_DROPS


def brute_force(h1, h2, graph, settings):
    """The loss as the authors write it, from all n² similarities, in float64."""
    n, (source, target) = graph.n, graph.edge_index
    s = F.normalize(h1.double()) @ F.normalize(h2.double()).T
    weight = torch.ones(len(source)) if graph.edge_weight is None else graph.edge_weight
    on_edges = -(weight * s[target, source]).sum() / weight.sum()
    other = torch.ones(n, n, dtype=torch.bool).fill_diagonal_(False)
    other[target, source] = False
    pushed = torch.sigmoid((s[other] - settings.threshold) / settings.temperature).mean()
    return -s.diagonal().mean() + settings.edge_weight * on_edges + settings.pair_weight * pushed


@pytest.mark.parametrize("use_weights", [False, True])
def test_the_loss_and_its_gradient_equal_brute_force(small_graph, use_weights):
    graph = weighted(small_graph) if use_weights else small_graph
    options = {"edge_weight": 0.7, "pair_weight": 1.3, "threshold": 0.2, "temperature": 0.2}
    state, inputs = start_run("ns4gc", graph, **options | WITHOUT_DROPS)
    method, first = state.method.train(), state.method.encoder.weights[0]
    loss = method.loss(inputs, state.rng)
    (gradient,) = torch.autograd.grad(loss, first)
    h = method.encoder(inputs.gcn)
    expected = brute_force(h, h, graph, method.settings)
    (expected_gradient,) = torch.autograd.grad(expected, first)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)  # float32 against float64
    assert torch.allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-4 * float(expected_gradient.abs().max()))


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
