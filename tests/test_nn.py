import math

import pytest
import torch
from torch_geometric.nn import GCNConv

from afgrl.nn import Encoder, FrozenBatchNorm, Predictor, Progress, calibrate, follow, target_decay
from afgrl.ops import propagate


def test_decay_schedules_by_hand():
    start, middle, end = (Progress(step, 100) for step in (0, 50, 100))
    assert target_decay(start, 0.9, "cosine") == pytest.approx(0.9)
    assert target_decay(middle, 0.9, "cosine") == pytest.approx(0.95)
    assert target_decay(end, 0.9, "cosine") == pytest.approx(1.0)
    assert target_decay(middle, 0.9, "constant") == 0.9
    swing = [target_decay(Progress(step, 5000), 0.9, "authors") for step in (0, 1000, 2000, 2500)]
    assert swing == pytest.approx([0.9, 1.0, 0.9, 0.95])


def test_the_authors_decay_equals_their_counter_within_a_step():
    """Five parameter tensors a step advance a counter through a cosine of 5,000; ours takes the step's first."""
    for step in (0, 137, 1999, 4321):
        counted = [1 - 0.1 * (math.cos(math.pi * (5 * step + i) / 5000) + 1) / 2 for i in range(5)]
        assert target_decay(Progress(step, 5000), 0.9, "authors") == pytest.approx(counted[0])
        assert max(counted) - min(counted) < 2e-4  # so one decay for all five changes nothing that matters


def test_the_target_follows_parameters_only(small_graph, rng):
    inputs = propagate(small_graph)
    online, target = (Encoder(12, 4, 1, "frozen", rng) for _ in range(2))
    calibrate(online, inputs)
    before, buffers = [p.clone() for p in target.parameters()], [b.clone() for b in target.buffers()]
    follow(target, online, 0.75)
    for new, old, leader in zip(target.parameters(), before, online.parameters(), strict=True):
        assert torch.allclose(new, 0.75 * old + 0.25 * leader, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(target.buffers(), buffers, strict=True))


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_the_encoder_is_a_stack_of_gcn_layers(n_layers, small_graph, rng):
    encoder = Encoder(12, 5, n_layers, "none", rng)
    h = small_graph.x
    for weight, bias, activation in zip(encoder.weights, encoder.biases, encoder.activations, strict=True):
        layer = GCNConv(weight.shape[0], weight.shape[1])
        layer.lin.weight.data, layer.bias.data = weight.data.T, bias.data
        h = activation(layer(h, small_graph.edge_index))
    assert torch.allclose(encoder(propagate(small_graph)), h, atol=1e-5)  # float32 sums in another order


def test_messages_carry_gradients(small_graph, rng):
    encoder = Encoder(12, 5, 2, "none", rng)
    encoder(propagate(small_graph)).square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in encoder.weights)


def test_frozen_statistics_are_one_batch_blended_with_the_identity(rng):
    x = 3 + 2 * torch.randn(50, 4, generator=rng)
    reference = torch.nn.BatchNorm1d(4, momentum=0.01)
    expected = reference(x)  # one step in training mode, then evaluation mode for ever: the authors' code
    norm = FrozenBatchNorm(4, momentum=0.01)
    assert torch.allclose(calibrate(norm, x), expected)
    norm.train()
    assert torch.allclose(norm(x), reference.eval()(x))
    held = norm.running_mean.clone()
    norm(x + 5)
    assert torch.equal(norm.running_mean, held)


@pytest.mark.parametrize("kind", ["frozen", "batch", "layer", "none"])
def test_every_normalization_trains(kind, small_graph, rng):
    encoder, predictor = Encoder(12, 5, 1, kind, rng), Predictor(5, 8, kind, rng)
    inputs = propagate(small_graph)
    calibrate(predictor, calibrate(encoder, inputs))
    predictor(encoder(inputs)).square().sum().backward()
    for name, parameter in [*encoder.named_parameters(), *predictor.named_parameters()]:
        assert torch.isfinite(parameter.grad).all(), name
