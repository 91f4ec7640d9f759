import math

import pytest
import torch
from torch.nn import functional as F

from afgrl.ops.skipgram import band, negative_nodes, noise, skipgram_loss


def pair_by_pair(center, context, negatives, window, n_negatives):
    """The loss as it is written down, the negatives' term as its mean over all that were drawn."""
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
def test_equals_a_loop_over_pairs_in_float64_with_gradient(length, window, per_walk, rng):
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
def test_no_pairs_is_no_loss(shape, window):
    parts = [torch.ones(shape, requires_grad=True) for _ in range(2)] + [torch.ones(5, 4, requires_grad=True)]
    loss = skipgram_loss(*parts, window)
    loss.backward()
    assert loss.item() == 0
    assert all(torch.equal(part.grad, torch.zeros_like(part)) for part in parts)


def test_large_products_stay_finite():
    parts = [torch.full((1, 3, 2), 1e3, requires_grad=True) for _ in range(2)]
    loss = skipgram_loss(*parts, torch.full((1, 2), 1e3), window=1, n_negatives=1)
    loss.backward()
    assert loss.item() == pytest.approx(2e6)  # the positives cost nothing, a negative its product
    assert all(part.grad.isfinite().all() for part in parts)


def test_band_by_hand():
    assert band(4, 2, torch.device("cpu")).tolist() == [[0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]]


def test_shared_negatives_expect_what_independent_ones_do(rng):
    """Exactly: over all nodes as negatives, each as often as its share, both are the sum over nodes of share * term."""
    degree = torch.tensor([16, 81, 16, 0, 1, 1])  # degree^0.75 is 8, 27, 8, 0, 1, 1
    often = torch.tensor([8, 27, 8, 0, 1, 1])
    table = torch.randn(6, 3, generator=rng)
    center, context = torch.randn(2, 2, 5, 3, generator=rng)
    share = noise(degree).diff(prepend=torch.zeros(1, dtype=torch.float64))
    expected = 0.0
    for walk in range(2):
        for i, j in band(5, 2, torch.device("cpu")).nonzero().tolist():
            expected -= F.logsigmoid(center[walk, i] @ context[walk, j]).item()
            expected -= 5 * (share * F.logsigmoid(-(table @ center[walk, i])).double()).sum().item()
    expected /= 2 * band(5, 2, torch.device("cpu")).sum().item()
    found = skipgram_loss(center, context, table[torch.arange(6).repeat_interleave(often)], 2, 5)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_drawn_negatives_average_to_the_same(rng):
    table = torch.randn(4, 3, generator=rng)
    center, context = torch.randn(2, 1, 4, 3, generator=rng)
    everything = table[torch.arange(4).repeat_interleave(torch.tensor([1, 8, 0, 27]))]
    distribution = noise(torch.tensor([1, 16, 0, 81]))
    drawn = torch.stack(
        [skipgram_loss(center, context, table[negative_nodes(distribution, 2, rng)], 2) for _ in range(1000)]
    )
    expected = skipgram_loss(center, context, everything, 2)
    assert abs(drawn.mean() - expected) < 4 * drawn.std() / math.sqrt(1000)  # four standard errors of the mean


def test_negatives_follow_the_degree(rng):
    degree = torch.tensor([0, 1, 16, 0, 81, 256, 0])
    share = torch.tensor([0, 1, 8, 0, 27, 64, 0]) / 100
    count = torch.bincount(negative_nodes(noise(degree), 200_000, rng), minlength=7)
    assert (count[degree == 0] == 0).all()
    error = (share * (1 - share) / 200_000).sqrt()
    assert ((count / 200_000 - share).abs() <= 4 * error).all()  # four standard deviations of a binomial share


def test_a_draw_at_either_end_is_no_isolated_node(monkeypatch):
    distribution = noise(torch.tensor([0, 3, 3, 0]))
    ends = torch.tensor([0, 0.5, 1 - 2**-53], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *size, **how: ends)
    assert negative_nodes(distribution, 3, torch.Generator()).tolist() == [1, 2, 2]


def test_negatives_where_all_are_isolated(rng):
    drawn = negative_nodes(noise(torch.zeros(3, dtype=torch.int64)), 3000, rng)
    assert torch.bincount(drawn, minlength=3).min() > 850  # 1000 each, less five standard deviations of 26


def test_same_generator_same_negatives():
    distribution = noise(torch.arange(50))
    first, again, other = (negative_nodes(distribution, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_training_step_on_a_gpu(rng):
    """Tables, negatives, loss and gradient in one recording: played twice it draws anew, and has a gradient."""
    tables = [torch.randn(50, 8, generator=rng).cuda().requires_grad_() for _ in range(2)]
    walk = torch.randint(50, (6, 7), generator=rng).cuda()
    distribution, draws = noise(torch.arange(50, device="cuda")), torch.Generator("cuda").manual_seed(0)

    def step():
        negatives = tables[1][negative_nodes(distribution, 16, draws)]
        loss = skipgram_loss(tables[0][walk], tables[1][walk], negatives, 3)
        return loss, *torch.autograd.grad(loss, tables)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
        recording = torch.cuda.CUDAGraph()
        recording.register_generator_state(draws)
        with torch.cuda.graph(recording, stream=stream):
            results = step()
        played = []
        for _ in range(2):
            recording.replay()
            played.append([result.clone() for result in results])
    torch.cuda.synchronize()
    assert played[0][0] != played[1][0]
    assert all(result.isfinite().all() and result.any() for results in played for result in results)
