import pytest
import torch
from torch import nn
from torch_geometric.nn import DeepGraphInfomax

from afgrl.methods.dgi import Discriminator, real_and_corrupted
from afgrl.nn import GCN, gcn_inputs


def test_the_loss_equals_that_of_pyg(rng):
    real, corrupted = (torch.randn(20, 6, generator=rng) for _ in range(2))
    ours = Discriminator(6, rng)
    theirs = DeepGraphInfomax(6, nn.Identity(), lambda z, *a, **k: torch.sigmoid(z.mean(0)), lambda *a: a)
    theirs.weight.data = ours.weight.detach().clone()
    summary = torch.sigmoid(real.mean(0))
    loss = ours(real, corrupted, real).item()
    # PyG adds 1e-15 inside its logarithms and does not halve the sum.
    assert loss == pytest.approx(theirs.loss(real, corrupted, summary).item() / 2, rel=1e-5)


def test_corrupted_nodes_have_the_features_of_other_nodes(small_graph, rng):
    inputs = gcn_inputs(small_graph, to_sum_one=False)
    encoder = GCN([small_graph.n_features, 4], "prelu", "none", rng)
    state = rng.get_state()
    real, corrupted = real_and_corrupted(encoder, inputs, rng)
    rng.set_state(state)
    order = torch.rand(small_graph.n, generator=rng).argsort()
    assert torch.allclose(real, encoder(inputs), atol=1e-6)  # both views share one sparse product
    assert torch.allclose(corrupted, encoder(inputs._replace(x=inputs.x[order])), atol=1e-6)
    assert not torch.allclose(real, corrupted, atol=1e-2)
