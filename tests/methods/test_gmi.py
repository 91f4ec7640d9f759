import pytest
import torch

from afgrl.methods.gmi import _edge_loss
from tests.conftest import weighted
from tests.methods.short_runs import start_run


@pytest.mark.parametrize("has_weights", [False, True])
def test_neighbor_features_are_the_weighted_mean_over_neighbors(small_graph, has_weights):
    graph = weighted(small_graph) if has_weights else small_graph
    _, inputs = start_run("gmi", graph)
    adjacency = torch.zeros(graph.n, graph.n)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1.0 if graph.edge_weight is None else graph.edge_weight
    expected = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1e-12)  # a row of zeros for an isolated node
    mean = torch.zeros(graph.n, graph.n)
    mean[inputs.gcn.adjacency.rows, inputs.gcn.adjacency.indices] = inputs.neighbor_mean
    assert torch.allclose(mean, expected, atol=1e-6)  # float32 sums


def test_edges_with_a_high_score_have_a_low_loss(rng):
    edges = torch.tensor([[0, 1], [1, 0]])
    h = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]])
    similar = _edge_loss(h, edges, torch.Generator().manual_seed(0))
    different = _edge_loss(h, torch.tensor([[0, 2], [2, 0]]), torch.Generator().manual_seed(0))
    assert similar < different
    assert _edge_loss(h, torch.empty(2, 0, dtype=torch.int64), rng) == 0


def test_each_weight_of_the_loss_counts(small_graph):
    losses = {}
    for name in ("", "own_weight", "around_weight", "edge_weight"):
        state, inputs = start_run("gmi", small_graph, **({name: 0.0} if name else {}))
        losses[name] = state.method.loss(inputs, state.rng).item()
    assert len(set(losses.values())) == 4
    state, inputs = start_run("gmi", small_graph, own_weight=0.0, around_weight=0.0, edge_weight=0.0)
    assert state.method.loss(inputs, state.rng).item() == 0
