import math

import pytest
import torch
from torch_geometric.nn import GCNConv

from afgrl.graph import Graph
from afgrl.nn import (
    GCN,
    MLP,
    BatchNorm,
    Encoder,
    FrozenBatchNorm,
    Predictor,
    Progress,
    activation_layer,
    calibrate,
    ema_decay,
    ema_update,
    gcn_inputs,
    padded_matmul,
)
from afgrl.ops.propagation import propagate


def test_the_schedules_of_the_ema_decay_by_hand():
    start, middle, end = (Progress(step, 100) for step in (0, 50, 100))
    assert ema_decay(start, 0.9, "cosine") == pytest.approx(0.9)
    assert ema_decay(middle, 0.9, "cosine") == pytest.approx(0.95)
    assert ema_decay(end, 0.9, "cosine") == pytest.approx(1.0)
    assert ema_decay(middle, 0.9, "constant") == 0.9
    swing = [ema_decay(Progress(step, 5000), 0.9, "authors") for step in (0, 1000, 2000, 2500)]
    assert swing == pytest.approx([0.9, 1.0, 0.9, 0.95])


def test_the_schedule_of_the_authors_equals_their_counter_within_a_step():
    """Their counter advances with each of five parameter tensors; one decay per step uses its first value."""
    for step in (0, 137, 1999, 4321):
        counted = [1 - 0.1 * (math.cos(math.pi * (5 * step + i) / 5000) + 1) / 2 for i in range(5)]
        assert ema_decay(Progress(step, 5000), 0.9, "authors") == pytest.approx(counted[0])
        assert max(counted) - min(counted) < 2e-4  # too small to matter


def test_the_ema_update_changes_parameters_but_not_buffers(small_graph, rng):
    inputs = propagate(small_graph)
    online, target = (Encoder(12, 4, 1, "frozen", rng) for _ in range(2))
    calibrate(online, inputs)
    before, buffers = [p.clone() for p in target.parameters()], [b.clone() for b in target.buffers()]
    ema_update(target, online, 0.75)
    for new, old, followed in zip(target.parameters(), before, online.parameters(), strict=True):
        assert torch.allclose(new, 0.75 * old + 0.25 * followed, atol=1e-7)
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


def test_gradients_flow_through_messages(small_graph, rng):
    encoder = Encoder(12, 5, 2, "none", rng)
    encoder(propagate(small_graph)).square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in encoder.weights)


def test_frozen_statistics_are_those_of_one_batch_blended_with_the_identity(rng):
    x = 3 + 2 * torch.randn(50, 4, generator=rng)
    reference = torch.nn.BatchNorm1d(4, momentum=0.01)
    expected = reference(x)  # the authors' code: one step in train mode, then eval mode
    norm = FrozenBatchNorm(4, momentum=0.01)
    assert torch.allclose(calibrate(norm, x), expected)
    norm.train()
    assert torch.allclose(norm(x), reference.eval()(x))
    held = norm.running_mean.clone()
    norm(x + 5)
    assert torch.equal(norm.running_mean, held)


@pytest.mark.parametrize("kind", ["frozen", "batch", "none"])
def test_every_normalization_trains(kind, small_graph, rng):
    encoder, predictor = Encoder(12, 5, 1, kind, rng), Predictor(5, 8, kind, rng)
    inputs = propagate(small_graph)
    calibrate(predictor, calibrate(encoder, inputs))
    predictor(encoder(inputs)).square().sum().backward()
    for name, parameter in [*encoder.named_parameters(), *predictor.named_parameters()]:
        assert torch.isfinite(parameter.grad).all(), name


def test_a_single_row_is_normalized_with_the_running_statistics(rng):
    norm = BatchNorm(3).train()
    x = torch.randn(5, 3, generator=rng)
    norm(x)
    one = norm(x[:1])
    assert torch.allclose(one, norm.eval()(x[:1]))
    assert torch.isfinite(one).all()


def test_gcn_layers_equal_those_of_pyg(small_graph, rng):
    ours = GCN([small_graph.n_features, 6, 4], "relu", "none", rng)
    h = small_graph.x
    for depth in range(2):
        theirs = GCNConv(h.shape[1], ours.weights[depth].shape[1])
        theirs.lin.weight.data = ours.weights[depth].detach().T.clone()
        h = theirs(h, small_graph.edge_index).relu()
    output = ours(gcn_inputs(small_graph, to_sum_one=False))
    assert torch.allclose(output, h, atol=1e-5)  # float32 sums in another order


def test_masked_features_are_ignored(small_graph, rng):
    encoder = GCN([small_graph.n_features, 6], "prelu", "none", rng)
    mask = (torch.arange(small_graph.n_features) % 3 > 0).float()
    masked = Graph(small_graph.x * mask, small_graph.edge_index)
    ours = encoder(gcn_inputs(small_graph, to_sum_one=False), feature_mask=mask)
    assert torch.allclose(ours, encoder(gcn_inputs(masked, to_sum_one=False)), atol=1e-6)


def test_other_values_replace_those_of_the_adjacency(small_graph, rng):
    encoder = GCN([small_graph.n_features, 6], "prelu", "none", rng)
    inputs = gcn_inputs(small_graph, to_sum_one=False)
    doubled = encoder(inputs, 2 * inputs.values)
    twice = encoder(inputs._replace(x=2 * inputs.x))
    assert torch.allclose(doubled, twice, atol=1e-5)  # float32


@pytest.mark.parametrize("has_negatives", [False, True])
def test_features_are_scaled_to_the_sum_1_dense_or_sparse(small_graph, rng, has_negatives):
    weight = torch.randn(small_graph.n_features, 3, generator=rng)
    x = small_graph.x if has_negatives else small_graph.x.abs()
    expected = (x / x.abs().sum(1, keepdim=True)) @ weight
    for features in (x, x.to_sparse_csr()):
        inputs = gcn_inputs(Graph(features, small_graph.edge_index), to_sum_one=True)
        assert torch.allclose(inputs.x @ weight, expected, atol=1e-5)  # float32


def test_zero_columns_at_the_end_of_the_input_are_ignored(rng):
    x, weight = torch.randn(5, 3, generator=rng), torch.randn(3, 4, generator=rng)
    assert torch.equal(padded_matmul(torch.nn.functional.pad(x, (0, 5)), weight), x @ weight)
    assert torch.equal(padded_matmul(x, weight), x @ weight)


def test_an_mlp_equals_two_linear_layers(rng):
    mlp, x = MLP(4, 6, 3, torch.nn.ELU(), rng), torch.randn(5, 4, generator=rng)
    first, last = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)
    first.weight.data, first.bias.data = mlp.weight_in.data.T, mlp.bias_in.data
    last.weight.data, last.bias.data = mlp.weight_out.data.T, mlp.bias_out.data
    assert torch.allclose(mlp(x), last(torch.nn.functional.elu(first(x))), atol=1e-6)  # float32
    assert mlp.weight_in.abs().max() <= 4**-0.5  # the initialization of nn.Linear


def test_rrelu_has_the_mean_slope_of_its_eval_mode():
    x = torch.linspace(-2, 2, 9)
    assert torch.allclose(activation_layer("rrelu")(x), torch.nn.functional.rrelu(x, training=False))


def test_the_predictor_starts_with_the_biases_of_the_authors():
    predictor = Predictor(3, 4, "none", torch.Generator())
    assert predictor.bias_in.tolist() == pytest.approx([0.01] * 4)
    assert predictor.bias_out.tolist() == pytest.approx([0.01] * 3)
