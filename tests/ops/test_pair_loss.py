"""The pair loss: by hand, against float64, and the Triton kernel against the reference."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from afgrl.ops.collectives import Shards
from afgrl.ops.pair_loss import batch_pair_loss, pair_matrix, positive_pair_loss, pull_of
from afgrl.ops.pair_loss.reference import divisor, positive_pair_loss_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def pair_by_pair(z, t, src, dst, over):
    """The loss as it is written in the paper: copies both ends of every pair."""
    forward = 2 - 2 * F.cosine_similarity(z[src], t[dst])
    backward = 2 - 2 * F.cosine_similarity(z[dst], t[src])
    return (forward + backward).sum() / (len(src) if over == "pairs" else len(z))


def test_matrix_by_hand():
    matrix = pair_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), 3, torch.tensor([True, False, True]))
    weight = matrix.explicit_values
    rows = [part.tolist() for part in (matrix.indptr, matrix.indices, weight)]
    columns = [part.tolist() for part in (matrix.indptr_t, matrix.indices_t, weight[matrix.order_t])]
    assert rows == [[0, 2, 3, 3], [0, 1, 0], [1, 0, 1]]
    assert columns == [[0, 2, 3, 3], [0, 1, 0], [1, 1, 0]]
    assert weight.dtype == torch.float32


@pytest.mark.parametrize("loss", [positive_pair_loss, positive_pair_loss_reference])
def test_loss_by_hand(loss):
    z, t = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    matrix = pair_matrix(torch.tensor([0]), torch.tensor([1]), 2)  # cos(z_0, t_1) = 1, cos(z_1, t_0) = 0
    assert loss(z, t, matrix).item() == pytest.approx(2)
    assert loss(z, t, matrix, over="nodes").item() == pytest.approx(1)


@pytest.mark.parametrize("loss", [positive_pair_loss, positive_pair_loss_reference])
@pytest.mark.parametrize("over", ["pairs", "nodes"])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradient_equal_float64(loss, over, weighted, rng):
    n, d = 65, 9
    src, dst = torch.randint(n, (2, 300), generator=rng)
    src, weight = src.sort().values, torch.rand(300, generator=rng) > 0.4
    counted = weight if weighted else torch.ones_like(weight)
    z, t = torch.randn(2, n, d, generator=rng)
    exact = z.double().requires_grad_()
    expected = pair_by_pair(exact, t.double(), src[counted], dst[counted], over)
    expected.backward()
    ours = z.clone().requires_grad_()
    found = loss(ours, t, pair_matrix(src, dst, n, weight if weighted else None), over=over)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(ours.grad.double(), exact.grad, atol=1e-6)


def test_the_target_gets_no_gradient(rng):
    z, t = torch.randn(2, 4, 3, generator=rng).unbind()
    t.requires_grad_()
    matrix = pair_matrix(torch.tensor([0, 1]), torch.tensor([1, 2]), 4)
    for loss in (positive_pair_loss, positive_pair_loss_reference):
        loss(z.clone().requires_grad_(), t, matrix).backward()
        assert t.grad is None


@pytest.mark.parametrize("loss", [positive_pair_loss, positive_pair_loss_reference])
def test_without_pairs_the_loss_is_zero(loss):
    empty = torch.empty(0, dtype=torch.int64)
    for matrix in (pair_matrix(empty, empty, 3), pair_matrix(*torch.tensor([[0], [1]]), 3, torch.tensor([0]))):
        z = torch.ones(3, 2, requires_grad=True)
        value = loss(z, torch.ones(3, 2), matrix)
        value.backward()
        assert value.item() == 0
        assert torch.equal(z.grad, torch.zeros(3, 2))


@pytest.mark.parametrize("over", ["pairs", "nodes"])
@pytest.mark.parametrize(("n", "d", "p"), [(1, 3, 1), (63, 40, 200), (20, 130, 0), (9, 5, 300)])
def test_loss_and_gradient_of_the_kernel_equal_the_reference(n, d, p, over, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.pair_loss.triton import agreement_triton

    src = torch.randint(n, (p,), generator=rng).sort().values.to(DEVICE)
    dst = torch.randint(n, (p,), generator=rng).to(DEVICE)
    matrix = pair_matrix(src, dst, n, (torch.rand(p, generator=rng) > 0.3).to(DEVICE))
    z, t = torch.randn(2, n, d, generator=rng).to(DEVICE)
    leaf = z.clone().requires_grad_()
    loss = positive_pair_loss_reference(leaf, t, matrix, over=over)
    (gradient,) = torch.autograd.grad(loss, leaf)
    count = matrix.explicit_values.sum()
    divided_by = divisor(count, n, over)
    agreement, ours = agreement_triton(z, t, matrix, divided_by)
    assert ((4 * count - 2 * agreement) / divided_by).item() == pytest.approx(loss.item(), abs=1e-5)
    assert torch.allclose(ours, gradient, atol=1e-6)


@pytest.mark.parametrize("over", ["pairs", "nodes"])
@pytest.mark.parametrize("ops", ["auto", "reference"])
def test_with_constant_targets_the_loss_of_all_rows_is_that_of_the_pull(over, ops, rng, monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", ops)
    n, d = 40, 6
    src, dst = torch.randint(n, (2, 150), generator=rng)
    src, is_positive = src.sort().values, torch.rand(150, generator=rng) > 0.4
    matrix = pair_matrix(src, dst, n, is_positive)
    z, t = torch.randn(2, n, d, generator=rng)
    exact, ours = (z.clone().requires_grad_() for _ in range(2))
    expected = positive_pair_loss_reference(exact, t, matrix, over=over)
    expected.backward()
    pull = pull_of(t, src, dst, is_positive, Shards(n), over=over)
    found = batch_pair_loss(ours, pull.rows, pull.offset, n)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(ours.grad, exact.grad, atol=1e-6)


def test_the_mean_loss_of_disjoint_batches_is_the_loss_of_all_rows(rng):
    n, d = 30, 4
    src, dst = torch.randint(n, (2, 90), generator=rng)
    src = src.sort().values
    z, t = torch.randn(2, n, d, generator=rng)
    rows, offset = pull_of(t, src, dst, torch.ones(90, dtype=torch.bool), Shards(n))
    batches = torch.randperm(n, generator=rng).split([10, 5, 15])
    expected = positive_pair_loss(z, t, pair_matrix(src, dst, n)).item()
    losses = [batch_pair_loss(z[batch], rows[batch], offset, len(batch)).item() for batch in batches]
    assert np.average(losses, weights=[10, 5, 15]) == pytest.approx(expected, rel=1e-5)
    parts = [batch_pair_loss(z[part], rows[part], offset, n).item() for part in batches]  # of several processes
    assert sum(parts) == pytest.approx(expected, rel=1e-5)


def test_no_positive_pair_gives_no_pull(rng):
    pair = torch.tensor([0]), torch.tensor([1]), torch.tensor([False])
    pull = pull_of(torch.randn(3, 2, generator=rng), *pair, Shards(3))
    assert not pull.rows.any()
    assert pull.offset == 0
