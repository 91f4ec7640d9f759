"""Sums over all pairs: by hand, in float64 from the whole matrix, and in blocks."""

import math

import pytest
import torch
from torch.nn import functional as F

from afgrl.errors import AfgrlError
from afgrl.ops import pair_sums
from afgrl.ops.pair_sums import LogDistance, SoftThreshold, pair_sum

PENALTIES = [LogDistance(1e-6), SoftThreshold(0.6, 0.1)]


def rows(n, d, rng, dtype=torch.float64):
    return F.normalize(torch.randn(n, d, generator=rng, dtype=dtype)).requires_grad_()


def test_two_rows_by_hand():
    u = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    v = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    weight = torch.tensor([2.0, 3.0])
    # u_0 · v_1 = .6 and u_1 · v_0 = 0; a row with itself does not count.
    expected = 2 * -math.log(0.2 + 1e-6) + 3 * -math.log(0.5 + 1e-6)
    assert float(pair_sum(u, v, weight, LogDistance(1e-6))) == pytest.approx(expected, rel=1e-6)
    expected = 2 * 0.5 + 3 / (1 + math.exp(6))
    assert float(pair_sum(u, v, weight, SoftThreshold(0.6, 0.1))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
@pytest.mark.parametrize("n", [1, 2, 13])
def test_blocks_equal_the_whole_matrix_with_their_gradients(penalty, n, rng, monkeypatch):
    monkeypatch.setattr(pair_sums, "CPU_BLOCK_BYTES", 8 * n * 4)  # four rows, so that the last block is smaller
    u, v, weight = rows(n, 5, rng), rows(n, 5, rng), torch.rand(n, generator=rng, dtype=torch.float64)
    own = torch.eye(n, dtype=torch.bool)
    expected = (weight[:, None] * penalty.value(u @ v.T)).masked_fill(own, 0).sum()
    expected_grads = torch.autograd.grad(expected, (u, v), allow_unused=True)
    actual = 3 * pair_sum(u, v, weight, penalty)
    grads = torch.autograd.grad(actual, (u, v))
    assert torch.allclose(actual, 3 * expected, rtol=1e-12)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        assert torch.allclose(grad, 3 * expected_grad, rtol=1e-10, atol=1e-14)
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert torch.allclose(pair_sum(u, v, weight, penalty), expected, rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
@pytest.mark.parametrize("numbers", [[], [4], [12, 3, 3, 0, 9, 1]], ids=len)
def test_some_rows_are_compared_with_all_others(penalty, numbers, rng, monkeypatch):
    n, m = 13, len(numbers)
    monkeypatch.setattr(pair_sums, "CPU_BLOCK_BYTES", 8 * max(1, m) * 4)  # four rows
    u, v, weight = rows(n, 5, rng), rows(m, 5, rng), torch.rand(n, generator=rng, dtype=torch.float64)
    numbers = torch.tensor(numbers, dtype=torch.long)
    expected = sum(
        (weight[i] * penalty.value(u[i] @ v[j]) for i in range(n) for j in range(m) if numbers[j] != i),
        start=0 * u.sum() + 0 * v.sum(),
    )
    expected_grads = torch.autograd.grad(expected, (u, v))
    actual = pair_sum(u, v, weight, penalty, numbers)
    assert torch.allclose(actual, expected, rtol=1e-12)
    for grad, expected_grad in zip(torch.autograd.grad(actual, (u, v)), expected_grads, strict=True):
        assert torch.allclose(grad, expected_grad, rtol=1e-10, atol=1e-14)
    monkeypatch.setenv("AFGRL_OPS", "reference")
    assert torch.allclose(pair_sum(u, v, weight, penalty, numbers), expected, rtol=1e-12)


def test_the_same_rows_twice_get_both_gradients(rng):
    z = rows(6, 4, rng)
    weight = torch.rand(6, generator=rng, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: pair_sum(z, z, weight, PENALTIES[1]), [z])


def test_equal_rows_have_a_finite_penalty_whatever_the_rounding():
    penalty = LogDistance(1e-6)
    values, slopes = penalty.value_and_slope(torch.tensor([1.0, 1.001]))
    assert torch.isfinite(values).all()
    assert torch.isfinite(slopes).all()
    assert float(values[0]) == pytest.approx(-math.log(1e-6), rel=1e-5)


def test_other_shapes_are_refused():
    with pytest.raises(AfgrlError, match=r"not \(3, 2\), \(2, 2\), \(3,\)"):
        pair_sum(torch.ones(3, 2), torch.ones(2, 2), torch.ones(3), PENALTIES[0])
    with pytest.raises(AfgrlError, match=r"not \(3, 2\), \(2, 2\), \(3,\), \(1,\)"):
        pair_sum(torch.ones(3, 2), torch.ones(2, 2), torch.ones(3), PENALTIES[0], torch.tensor([1]))
