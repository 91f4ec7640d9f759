import pytest
import torch
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from afgrl.graph import Graph
from afgrl.methods.graphmae2 import Decoder, random_mask
from afgrl.nn import Progress
from afgrl.nn.gat import GAT
from afgrl.ops.propagation.adjacency import gcn_adjacency
from tests.conftest import weighted
from tests.methods.short_runs import start_run

WITHOUT_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}


def test_a_layer_equals_that_of_pyg_with_its_gradient(small_graph, rng):
    ours = GAT([12, 6], 3, rng)
    theirs = GATConv(12, 2, heads=3)
    theirs.lin.weight.data = ours.weights[0].detach().T.clone()
    theirs.att_src.data = ours.attention[0].sender.detach()[None].clone()
    theirs.att_dst.data = ours.attention[0].receiver.detach()[None].clone()
    actual = ours(gcn_adjacency(small_graph), small_graph.x)
    expected = F.prelu(theirs(small_graph.x, small_graph.edge_index), ours.activations[0].weight)
    assert torch.allclose(actual, expected, atol=1e-5)
    (gradient,) = torch.autograd.grad(actual.square().sum(), [ours.attention[0].sender])
    (expected_gradient,) = torch.autograd.grad(expected.square().sum(), [theirs.att_src])
    assert torch.allclose(gradient, expected_gradient[0], rtol=1e-3, atol=1e-4)


def test_edge_weights_multiply_attention(rng):
    """Two equal neighbors share attention by the weights of their edges."""
    x = torch.tensor([[0.0], [1.0], [1.0], [5.0]])
    graph = Graph(x, torch.tensor([[1, 2, 3], [0, 0, 0]]), edge_weight=torch.tensor([1.0, 3.0, 2.0]))
    adjacency = gcn_adjacency(graph)
    h = GAT([1, 1], 1, rng).attention[0](adjacency, x, 0, 0.0, None).detach()
    of_first = {int(j): float(h[e]) for e, j in enumerate(adjacency.indices) if adjacency.rows[e] == 0}
    assert of_first[2] == pytest.approx(3 * of_first[1], rel=1e-5)


def test_cosines_equal_those_of_the_reconstruction(rng):
    decoder = Decoder(5, 30, rng)
    decoder.bias.data.normal_(generator=rng)
    x, y = torch.rand(9, 30, generator=rng), torch.randn(9, 5, generator=rng, requires_grad=True)
    expected = F.cosine_similarity(x.double(), (y @ decoder.weight.T + decoder.bias).double())
    actual = decoder.agreement(x, y) / x.norm(dim=1)
    assert torch.allclose(actual.double(), expected, atol=1e-5)
    parameters = [y, decoder.weight, decoder.bias]
    for ours, other in zip(
        torch.autograd.grad(actual.sum(), parameters), torch.autograd.grad(expected.sum(), parameters), strict=True
    ):
        assert torch.allclose(ours, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("n_remasks", [0, 2])
@pytest.mark.parametrize("use_weights", [False, True])
def test_the_loss_equals_brute_force(small_graph, n_remasks, use_weights):
    graph = weighted(small_graph) if use_weights else small_graph
    options = {"n_remasks": n_remasks, "exponent": 2.0, "latent_weight": 0.5, "row_sums": True} | WITHOUT_DROPOUT
    state, inputs = start_run("graphmae2", graph, **options)
    method = state.method.train()
    for token in (method.token, method.decoder.token):
        token.data.normal_(generator=state.rng)  # training begins with 0
    actual = method.loss(inputs, state.rng.manual_seed(4)).item()
    rng, adjacency = state.rng.manual_seed(4), inputs.adjacency
    masked = random_mask(graph.n, 0.5, rng).bool()
    x = F.normalize(graph.x, p=1.0)
    h = method.encoder(adjacency, torch.where(masked[:, None], method.token, x))
    encoder, projection = method.target
    t = projection(encoder(adjacency, x))
    z = method.prediction_slope(method.projection(h)) @ method.prediction_weight + method.prediction_bias
    expected = 0.5 * (1 - F.cosine_similarity(z, t)).mean()
    decoder = method.decoder
    for _ in range(max(1, n_remasks)):
        again = random_mask(graph.n, 0.5, rng).bool() if n_remasks else masked
        replaced = decoder.token if n_remasks else torch.zeros(8)
        rep = torch.where(again[:, None], replaced, h @ decoder.bridge)
        attention = torch.zeros(graph.n, graph.n)
        attention[adjacency.rows, adjacency.indices] = decoder.attention(adjacency, rep, 0, 0.0, None)
        reconstructed = attention @ rep @ decoder.weight.T + decoder.bias
        expected = expected + ((1 - F.cosine_similarity(x, reconstructed)) ** 2)[masked].mean()
    assert actual == pytest.approx(expected.item(), rel=1e-4)  # sums in another order


def test_the_loss_does_not_see_the_features_of_masked_nodes_except_as_targets(small_graph):
    """The encoder's vectors are the same whatever the features of masked nodes are."""
    state, inputs = start_run("graphmae2", small_graph, **WITHOUT_DROPOUT)
    method, masked = state.method, random_mask(small_graph.n, 0.5, state.rng)
    changed = small_graph.x + 7 * masked[:, None]
    first, second = (method.encoder(inputs.adjacency, x, masked, method.token) for x in (small_graph.x, changed))
    assert torch.allclose(first, second, atol=1e-6)


def test_the_target_and_the_learning_rate_follow_their_schedules(small_graph):
    state, _ = start_run("graphmae2", small_graph, momentum=0.9, learning_rate=0.1)
    method = state.method
    method.encoder.weights[0].data += 1
    before = method.target[0].weights[0].clone()
    method.after_step(Progress(1, 10))
    assert torch.allclose(method.target[0].weights[0], before + 0.1, atol=1e-6)
    assert [method.learning_rate(Progress(step, 10)) for step in (0, 5)] == pytest.approx([0.1, 0.05])
