import pytest
import torch
from torch.nn import functional as F

from afgrl.methods.sgrl import scattering_loss
from afgrl.nn import Progress
from afgrl.train.cuda_graph import eager_step
from tests.methods.short_runs import start_run


def test_the_scattering_loss_by_hand():
    t = torch.tensor([[2.0, 0.0], [0.0, 3.0]])  # unit rows are .5 from their mean in each column
    assert float(scattering_loss(t)) == pytest.approx(-0.5)
    assert float(scattering_loss(torch.ones(4, 3))) == pytest.approx(0, abs=1e-12)
    assert float(scattering_loss(torch.cat([torch.eye(3), -torch.eye(3)]))) == pytest.approx(-1)


@pytest.mark.parametrize("n_hops", [1, 2])
def test_the_loss_and_its_gradients_equal_dense_products(small_graph, n_hops):
    state, inputs = start_run("sgrl", small_graph, n_hops=n_hops)
    method = state.method.train()
    learned = [method.encoder.weights[0], method.target.weights[0]]
    loss = method.loss(inputs, state.rng)
    gradients = torch.autograd.grad(loss, learned)
    s = torch.zeros(small_graph.n, small_graph.n, dtype=torch.float64)
    s[inputs.adjacency.rows, inputs.adjacency.indices] = inputs.values.double()
    h, t = method.encoder(inputs).double(), method.target(inputs).double()
    z = method.predictor((h + torch.linalg.matrix_power(s, n_hops) @ h).float()).double()
    unit = F.normalize(t)
    distances = torch.stack([(row - unit.mean(0)) @ (row - unit.mean(0)) for row in unit])
    expected = -distances.mean() - (F.normalize(z) * F.normalize(t).detach()).sum(1).mean()
    expected_gradients = torch.autograd.grad(expected, learned)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)  # float32 against float64
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(gradient, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


def test_the_target_has_a_learning_rate_of_its_own(small_graph):
    """The first step of Adam has the size of the learning rate, for each number with a gradient."""
    state, inputs = start_run("sgrl", small_graph, momentum=1.0, learning_rate=1e-2, target_learning_rate=1e-3)
    method = state.method.train()
    before = [part.weights[0].detach().clone() for part in (method.encoder, method.target)]
    for step in (1, 2):
        eager_step(method, state.optimizer, state.rng, inputs)
        method.after_step(Progress(step, 10))
        if step == 1:
            moved = [
                (part.weights[0].detach() - old).abs()
                for part, old in zip((method.encoder, method.target), before, strict=True)
            ]
            assert float(moved[0].median()) == pytest.approx(1e-2, rel=1e-3)
            assert float(moved[1].median()) == pytest.approx(1e-3, rel=1e-3)
    assert (method.target.weights[0] - before[1]).abs().median().item() == pytest.approx(2e-3, rel=0.1)
    assert torch.equal(method.last_target.weights[0], method.target.weights[0])


def test_the_target_moves_toward_the_online_encoder(small_graph):
    state, _ = start_run("sgrl", small_graph, momentum=0.9)
    method = state.method
    expected = 0.9 * method.target.weights[0] + 0.1 * method.encoder.weights[0]
    method.after_step(Progress(1, 10))
    assert torch.allclose(method.target.weights[0], expected, atol=1e-7)


def test_training_scatters_the_targets(small_graph):
    rates = {"learning_rate": 0.01, "target_learning_rate": 0.01}
    state, inputs = start_run("sgrl", small_graph, momentum=1.0, **rates)
    before = scattering_loss(state.method.target(inputs)).item()
    for step in range(30):
        eager_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, 30))
    assert scattering_loss(state.method.target(inputs)).item() < before - 0.05
