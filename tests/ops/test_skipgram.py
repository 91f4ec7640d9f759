"""Skip-gram loss and negative sampling: by hand, against float64, and their distributions."""

import math

import pytest
import torch
from torch.nn import functional as F

from afgrl.ops.skipgram import band, negative_nodes, noise_distribution, skipgram_loss


def pair_by_pair(center, context, negatives, window, n_negatives):
    """The loss as it is written in the paper, with the mean of the negatives' terms over all draws."""
    terms = []
    for walk in range(len(center)):
        shared = negatives[walk] if negatives.ndim == 3 else negatives
        for i in range(center.shape[1]):
            for j in range(max(0, i - window), min(center.shape[1], i + window + 1)):
                if i != j:
                    together = -F.logsigmoid(center[walk, i] @ context[walk, j])
                    terms.append(together - n_negatives * F.logsigmoid(-(shared @ center[walk, i])).mean())
    return torch.stack(terms).mean()


@pytest.mark.parametrize(("length", "window"), [(7, 2), (7, 1), (7, 6), (7, 50), (2, 1)])
@pytest.mark.parametrize("per_walk", [False, True])
def test_loss_and_gradient_equal_a_loop_over_pairs_in_float64(length, window, per_walk, rng):
    parts = [
        torch.randn(*shape, generator=rng)
        for shape in [(3, length, 5), (3, length, 5), (3, 4, 5) if per_walk else (4, 5)]
    ]
    exact = [part.double().requires_grad_() for part in parts]
    expected = pair_by_pair(*exact, window, 5)
    expected.backward()
    ours = [part.clone().requires_grad_() for part in parts]
    found = skipgram_loss(*ours, window, 5)
    found.backward()
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)  # float32, of a few hundred terms
    for a, b in zip(ours, exact, strict=True):
        assert torch.allclose(a.grad.double(), b.grad, atol=1e-6)


@pytest.mark.parametrize(("shape", "window"), [((3, 1, 4), 2), ((3, 6, 4), 0), ((0, 6, 4), 2)])
def test_without_pairs_the_loss_is_zero(shape, window):
    parts = [torch.ones(shape, requires_grad=True) for _ in range(2)] + [torch.ones(5, 4, requires_grad=True)]
    loss = skipgram_loss(*parts, window)
    loss.backward()
    assert loss.item() == 0
    assert all(torch.equal(part.grad, torch.zeros_like(part)) for part in parts)


def test_large_products_stay_finite():
    parts = [torch.full((1, 3, 2), 1e3, requires_grad=True) for _ in range(2)]
    loss = skipgram_loss(*parts, torch.full((1, 2), 1e3), window=1, n_negatives=1)
    loss.backward()
    assert loss.item() == pytest.approx(2e6)  # the loss of the positives is 0, that of a negative its product
    assert all(part.grad.isfinite().all() for part in parts)


def test_band_by_hand():
    assert band(4, 2, torch.device("cpu")).tolist() == [[0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]]


def test_shared_negatives_have_the_expectation_of_independent_ones(rng):
    """Exactly: if every node is a negative in proportion to its share, both are the sum of share · term over nodes."""
    degree = torch.tensor([16, 81, 16, 0, 1, 1])  # degree^0.75 is 8, 27, 8, 0, 1, 1
    often = torch.tensor([8, 27, 8, 0, 1, 1])
    table = torch.randn(6, 3, generator=rng)
    center, context = torch.randn(2, 2, 5, 3, generator=rng)
    share = noise_distribution(degree).diff(prepend=torch.zeros(1, dtype=torch.float64))
    expected = 0.0
    for walk in range(2):
        for i, j in band(5, 2, torch.device("cpu")).nonzero().tolist():
            expected -= F.logsigmoid(center[walk, i] @ context[walk, j]).item()
            expected -= 5 * (share * F.logsigmoid(-(table @ center[walk, i])).double()).sum().item()
    expected /= 2 * band(5, 2, torch.device("cpu")).sum().item()
    found = skipgram_loss(center, context, table[torch.arange(6).repeat_interleave(often)], 2, 5)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_the_mean_over_drawn_negatives_is_the_expectation(rng):
    table = torch.randn(4, 3, generator=rng)
    center, context = torch.randn(2, 1, 4, 3, generator=rng)
    everything = table[torch.arange(4).repeat_interleave(torch.tensor([1, 8, 0, 27]))]
    distribution = noise_distribution(torch.tensor([1, 16, 0, 81]))
    drawn = torch.stack(
        [skipgram_loss(center, context, table[negative_nodes(distribution, 2, rng)], 2) for _ in range(1000)]
    )
    expected = skipgram_loss(center, context, everything, 2)
    assert abs(drawn.mean() - expected) < 4 * drawn.std() / math.sqrt(1000)  # four standard errors of the mean


def test_negatives_follow_the_degree(rng):
    degree = torch.tensor([0, 1, 16, 0, 81, 256, 0])
    share = torch.tensor([0, 1, 8, 0, 27, 64, 0]) / 100
    count = torch.bincount(negative_nodes(noise_distribution(degree), 200_000, rng), minlength=7)
    assert (count[degree == 0] == 0).all()
    error = (share * (1 - share) / 200_000).sqrt()
    assert ((count / 200_000 - share).abs() <= 4 * error).all()  # four standard deviations of a binomial share


def test_draws_at_both_ends_are_not_isolated_nodes(monkeypatch):
    distribution = noise_distribution(torch.tensor([0, 3, 3, 0]))
    ends = torch.tensor([0, 0.5, 1 - 2**-53], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *size, **how: ends)
    assert negative_nodes(distribution, 3, torch.Generator()).tolist() == [1, 2, 2]


def test_negatives_of_a_graph_without_edges(rng):
    drawn = negative_nodes(noise_distribution(torch.zeros(3, dtype=torch.int64)), 3000, rng)
    assert torch.bincount(drawn, minlength=3).min() > 850  # 1000 each, less five standard deviations of 26


def test_same_generator_same_negatives():
    distribution = noise_distribution(torch.arange(50))
    first, again, other = (negative_nodes(distribution, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_training_step_can_be_captured_on_a_gpu(rng):
    """Tables, negatives, loss and gradient in one CUDA graph: each replay draws new negatives and has a gradient."""
    tables = [torch.randn(50, 8, generator=rng).cuda().requires_grad_() for _ in range(2)]
    walk = torch.randint(50, (6, 7), generator=rng).cuda()
    distribution, draws = noise_distribution(torch.arange(50, device="cuda")), torch.Generator("cuda").manual_seed(0)

    def step():
        negatives = tables[1][negative_nodes(distribution, 16, draws)]
        loss = skipgram_loss(tables[0][walk], tables[1][walk], negatives, 3)
        return loss, *torch.autograd.grad(loss, tables)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(draws)
        with torch.cuda.graph(graph, stream=stream):
            results = step()
        replayed = []
        for _ in range(2):
            graph.replay()
            replayed.append([result.clone() for result in results])
    torch.cuda.synchronize()
    assert replayed[0][0] != replayed[1][0]
    assert all(result.isfinite().all() and result.any() for results in replayed for result in results)
