import pytest
import torch
from torch.nn import functional as F

from afgrl.ops import pair_loss, pair_matrix
from afgrl.ops.pairloss import pair_loss_reference


def pair_by_pair(z, t, src, dst, over):
    """The loss as it is written down: gather both ends of every pair."""
    forth = 2 - 2 * F.cosine_similarity(z[src], t[dst])
    back = 2 - 2 * F.cosine_similarity(z[dst], t[src])
    return (forth + back).sum() / (len(src) if over == "pairs" else len(z))


def test_matrix_by_hand():
    matrix = pair_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), 3, torch.tensor([True, False, True]))
    (start, other, weight), (start_back, other_back, weight_back) = (
        [part.tolist() for part in direction] for direction in matrix.directions
    )
    assert (start, other, weight) == ([0, 2, 3, 3], [0, 1, 0], [1, 0, 1])
    assert (start_back, other_back, weight_back) == ([0, 2, 3, 3], [0, 1, 0], [1, 1, 0])


@pytest.mark.parametrize("loss", [pair_loss, pair_loss_reference])
@pytest.mark.parametrize("over", ["pairs", "nodes"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_gathering_in_float64_with_gradient(loss, over, weighted, rng):
    n, d = 65, 9
    src, dst = torch.randint(n, (2, 300), generator=rng)
    src, weight = src.sort().values, torch.rand(300, generator=rng) > 0.4
    kept = weight if weighted else torch.ones_like(weight)
    z, t = torch.randn(2, n, d, generator=rng)
    exact = z.double().requires_grad_()
    expected = pair_by_pair(exact, t.double(), src[kept], dst[kept], over)
    expected.backward()
    ours = z.clone().requires_grad_()
    found = loss(ours, t, pair_matrix(src, dst, n, weight if weighted else None), over=over)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(ours.grad.double(), exact.grad, atol=1e-6)


@pytest.mark.parametrize("loss", [pair_loss, pair_loss_reference])
def test_no_pairs_is_no_loss(loss):
    nothing = torch.empty(0, dtype=torch.int64)
    for matrix in (pair_matrix(nothing, nothing, 3), pair_matrix(*torch.tensor([[0], [1]]), 3, torch.tensor([0]))):
        z = torch.ones(3, 2, requires_grad=True)
        value = loss(z, torch.ones(3, 2), matrix)
        value.backward()
        assert value.item() == 0
        assert torch.equal(z.grad, torch.zeros(3, 2))
