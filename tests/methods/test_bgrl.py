import math

import pytest
import torch
from torch.nn import functional as F

from afgrl.methods import Size
from afgrl.methods.bgrl import BGRLMethod, BGRLSettings
from afgrl.nn import Progress
from tests.methods.short_runs import start_run
from tests.methods.test_views import WITHOUT_DROPS


def test_the_loss_by_hand(small_graph):
    state, inputs = start_run("bgrl", small_graph, **WITHOUT_DROPS)
    method = state.method.train()
    with torch.no_grad():
        loss = method.loss(inputs, state.rng)
        z, t = method.predictor(method.encoder(inputs.gcn)), method.target(inputs.gcn)
    assert float(loss) == pytest.approx(2 - 2 * float(F.cosine_similarity(z, t).mean()), abs=1e-5)


def test_the_learning_rate_rises_linearly_and_decays_with_a_cosine():
    settings = BGRLSettings(epochs=1000, learning_rate=0.1, warmup=0.1, n_components=2, hidden_width=2)
    method = BGRLMethod(settings, Size(5, 3), torch.Generator())
    rates = [method.learning_rate(Progress(step, 1000)) for step in (1, 50, 100, 550, 999)]
    assert rates == pytest.approx([0.001, 0.05, 0.1, 0.1 * (1 + math.cos(math.pi / 2)) / 2, 0], abs=1e-6)


def test_the_target_starts_with_other_weights_and_has_no_gradient(small_graph):
    state, inputs = start_run("bgrl", small_graph)
    method = state.method
    assert not torch.equal(method.encoder.weights[0], method.target.weights[0])
    method.train().loss(inputs, state.rng).backward()
    assert all(parameter.grad is not None for parameter in method.encoder.parameters())
    assert all(parameter.grad is None for parameter in method.target.parameters())
