import pytest
import torch

from afgrl.methods.cca_ssg import excess_correlation, standardized
from tests.conftest import weighted
from tests.methods.short_runs import start_run, train_run
from tests.methods.test_views import WITHOUT_DROPS


def brute_force(h1, h2, weight):
    """The loss as the paper writes it, column by column, in float64."""
    n, d = h1.shape
    z1, z2 = ((h - h.mean(0)) / h.std(0) for h in (h1.double(), h2.double()))
    loss = -sum(z1[:, k] @ z2[:, k] for k in range(d)) / n
    for z in (z1, z2):
        for k in range(d):
            for other in range(d):
                loss = loss + weight * (z[:, k] @ z[:, other] / n - float(k == other)) ** 2
    return loss


@pytest.mark.parametrize("options", [{}, {"n_layers": 1}, {"encoder": "mlp"}])
def test_the_loss_and_its_gradient_equal_brute_force(small_graph, options):
    settings = {"decorrelation": 0.3, "n_components": 4} | WITHOUT_DROPS | options
    state, inputs = start_run("cca_ssg", small_graph, **settings)
    method = state.method.train()
    first = next(method.encoder.parameters())
    loss = method.loss(inputs, state.rng)
    (gradient,) = torch.autograd.grad(loss, first)
    h = method.encoder(inputs.gcn)
    expected = brute_force(h, h, 0.3)
    (expected_gradient,) = torch.autograd.grad(expected, first)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)  # float32 against float64
    assert torch.allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-4 * float(expected_gradient.abs().max()))


def test_the_views_differ(small_graph):
    state, inputs = start_run("cca_ssg", small_graph, decorrelation=0.0)
    n, d = small_graph.n, state.method.settings.n_components
    agreement = -state.method.loss(inputs, state.rng).item()
    assert 0 < agreement < 0.98 * d * (n - 1) / n  # of two equal views: the sum of all variances


def test_uncorrelated_columns_have_the_smallest_penalty(rng):
    q = torch.linalg.qr(torch.randn(50, 4, generator=rng) - 0.5)[0]
    q = torch.linalg.qr(q - q.mean(0))[0]
    assert float(excess_correlation(q * 50**0.5)) == pytest.approx(0, abs=1e-8)
    assert float(excess_correlation(standardized(q[:, [0, 0]]))) == pytest.approx(2, rel=0.1)  # two equal columns


def test_standardizing_does_not_depend_on_scale_and_survives_constant_columns(rng):
    h = torch.randn(30, 3, generator=rng)
    assert torch.allclose(standardized(1e-3 * h + 5e-3), standardized(h), atol=1e-3)
    constant = torch.full((30, 1), 2.0, requires_grad=True)
    standardized(constant).square().sum().backward()
    assert torch.equal(standardized(constant), torch.zeros(30, 1))
    assert torch.isfinite(constant.grad).all()


def test_an_mlp_does_not_see_edges(small_graph):
    settings = WITHOUT_DROPS | {"encoder": "mlp"}
    vectors = [train_run("cca_ssg", graph, **settings)[1] for graph in (small_graph, weighted(small_graph))]
    assert torch.equal(*vectors)
