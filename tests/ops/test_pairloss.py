import pytest
import torch
from torch.nn import functional as F

from afgrl.ops import pair_loss, pair_matrix


def pair_by_pair(z, t, src, dst, over):
    """The loss as it is written down: gather both ends of every pair."""
    forth = 2 - 2 * F.cosine_similarity(z[src], t[dst])
    back = 2 - 2 * F.cosine_similarity(z[dst], t[src])
    return (forth + back).sum() / (len(src) if over == "pairs" else len(z))


def test_matrix_by_hand():
    matrix = pair_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), 3)
    assert matrix.to_dense().tolist() == [[2, 2, 0], [2, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("over", ["pairs", "nodes"])
def test_equals_gathering_in_float64_with_gradient(over, rng):
    n, d = 65, 9
    src, dst = torch.randint(n, (2, 300), generator=rng)
    z, t = torch.randn(2, n, d, generator=rng)
    exact = z.double().requires_grad_()
    expected = pair_by_pair(exact, t.double(), src, dst, over)
    expected.backward()
    ours = z.clone().requires_grad_()
    loss = pair_loss(ours, t, pair_matrix(src, dst, n), len(src), over=over)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(ours.grad.double(), exact.grad, atol=1e-6)


def test_no_pairs_is_no_loss():
    nothing = torch.empty(0, dtype=torch.int64)
    z = torch.ones(3, 2, requires_grad=True)
    loss = pair_loss(z, torch.ones(3, 2), pair_matrix(nothing, nothing, 3), 0)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(z.grad, torch.zeros(3, 2))
