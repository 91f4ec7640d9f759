import numpy as np
import pytest
import torch
from torch.nn import functional as F

from afgrl.config import resolve
from afgrl.errors import UserError
from afgrl.methods.signa import FLOOR, SIGNASettings, neighbor_share, random_neighbors
from tests.conftest import weighted
from tests.methods.short_runs import start_run


def adjacency_of(graph, weights=None):
    dense = torch.zeros(graph.n, graph.n, dtype=torch.float64)
    source, target = graph.edge_index
    dense[target, source] = torch.ones(len(source), dtype=torch.float64) if weights is None else weights.double()
    return dense


def brute_force(z, kept, weights):
    """The loss as the paper writes it, from all n² similarities; ``kept`` and ``weights`` are [n, n]."""
    z = F.normalize(z.double())
    close = (1 + z @ z.T) / 2
    own = torch.eye(len(z), dtype=torch.float64)
    positive, negative = kept * weights + own, 1 - kept - own
    per_node = (positive * torch.log(close + FLOOR)).sum(1) / positive.sum(1)
    per_node += (negative * torch.log(1 - close + FLOOR)).sum(1) / negative.sum(1)
    return -per_node.mean()


@pytest.mark.parametrize("use_weights", [False, True])
def test_the_full_loss_and_its_gradient_equal_brute_force(small_graph, use_weights):
    graph = weighted(small_graph) if use_weights else small_graph
    state, inputs = start_run("signa", graph, dropout=0.0, mask=0.5)
    method = state.method.train()
    loss = method.loss(inputs, state.rng.manual_seed(7))
    loss.backward()
    gradient = method.projection.weight_out.grad.clone()
    drawn = torch.rand(inputs.adjacency.nnz, generator=state.rng.manual_seed(7))
    kept = (drawn >= 0.5) & ~inputs.adjacency.on_diagonal
    dense = torch.zeros(graph.n, graph.n, dtype=torch.float64)
    dense[inputs.adjacency.rows, inputs.adjacency.indices] = kept.double()
    relative = graph.edge_weight / graph.edge_weight.mean() if use_weights else None
    method.zero_grad()
    expected = brute_force(
        method.projection(method.encoder(inputs.table.rows(slice(None)))), dense, adjacency_of(graph, relative)
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)  # float32 against float64
    assert torch.allclose(gradient, method.projection.weight_out.grad, rtol=1e-3, atol=1e-6)


def test_the_loss_of_batches_is_that_of_full_batches_in_expectation(small_graph):
    settings = {"dropout": 0.0, "mask": 0.4, "n_components": 6}
    full, inputs = start_run("signa", small_graph, **settings)
    batches, batch_inputs = start_run("signa", small_graph, steps=1, **settings | {"batch_size": 40})
    batches.method.load_state_dict(full.method.state_dict())
    with torch.no_grad():
        exact = [float(full.method.loss(inputs, full.rng)) for _ in range(300)]
        drawn = [float(batches.method.loss(batch_inputs, batches.rng)) for _ in range(3000)]
    error = np.hypot(np.std(exact) / len(exact) ** 0.5, np.std(drawn) / len(drawn) ** 0.5)
    assert error < 0.02 * np.mean(exact)
    assert abs(np.mean(exact) - np.mean(drawn)) < 4 * error


@pytest.mark.parametrize("mask", [0.0, 0.3, 0.95])
def test_the_share_of_neighbors_equals_the_sum_over_all_masks(mask):
    degrees = range(6)
    expected = []
    for degree in degrees:
        kept = np.arange(degree + 1)
        ways = np.array([np.prod(np.arange(degree - k + 1, degree + 1)) / np.prod(np.arange(1, k + 1)) for k in kept])
        expected.append((ways * (1 - mask) ** kept * mask ** (degree - kept) * kept / (kept + 1)).sum())
    share = neighbor_share(torch.tensor(degrees, dtype=torch.float64), mask)
    assert torch.allclose(share, torch.tensor(np.array(expected)), atol=1e-12)


def test_neighbors_are_drawn_by_the_weights_of_their_edges(small_graph):
    graph = weighted(small_graph)
    state, inputs = start_run("signa", graph)
    node = int(inputs.degree.argmax())
    drawn = random_neighbors(inputs, torch.full((20_000,), node), state.rng)
    shares = torch.bincount(drawn, minlength=graph.n) / len(drawn)
    weights = adjacency_of(graph, graph.edge_weight)[node].float()
    assert torch.allclose(shares, weights / weights.sum(), atol=0.015)  # four standard errors
    isolated = (inputs.degree == 0).nonzero().squeeze(1)
    assert len(isolated)
    assert torch.equal(random_neighbors(inputs, isolated, state.rng), isolated)


def test_the_vector_of_a_node_depends_on_its_features_alone(small_graph):
    state, inputs = start_run("signa", small_graph)
    rows = torch.tensor([3, 5])
    assert torch.allclose(state.method.sample(inputs, rows), state.method.embed(inputs)[rows], atol=1e-6)


def test_epochs_select_full_batches(small_graph):
    settings = resolve(SIGNASettings, {"epochs": 5}, graph=small_graph)
    assert (settings.batch_size, settings.n_steps, settings.step_name) == (0, 5, "epoch")
    assert resolve(SIGNASettings, graph=small_graph).step_name == "step"
    with pytest.raises(UserError, match="epochs count full batches"):
        resolve(SIGNASettings, {"epochs": 5, "batch_size": 8}, graph=small_graph)
