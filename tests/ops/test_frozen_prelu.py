import pytest
import torch

from afgrl.ops import Norm, frozen_prelu
from afgrl.ops.frozen_prelu import BLOCK_BYTES, frozen_prelu_reference


def leaves(n, d, rng):
    x, bias = torch.randn(n, d, generator=rng), torch.randn(d, generator=rng)
    gain, shift = torch.randn(2, d, generator=rng)
    return [part.clone().requires_grad_() for part in (x, bias, gain, shift, torch.tensor([0.2]))]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 5), (1000, 700)])
def test_equals_the_layers_one_after_another(n, d, rng):
    assert BLOCK_BYTES < 4 * 1000 * 700  # so that the last of them takes several blocks
    mean, variance = torch.randn(d, generator=rng), torch.rand(d, generator=rng) + 0.1
    up = torch.randn(n, d, generator=rng)
    found = []
    for function in (frozen_prelu, frozen_prelu_reference):
        x, bias, gain, shift, slope = own = leaves(n, d, torch.Generator().manual_seed(3))
        y = function(x, bias, Norm(mean, variance, gain, shift, 1e-5), slope)
        found.append([y.detach(), *torch.autograd.grad(y, own, up)])
    for name, ours, theirs in zip(("y", "x", "bias", "gain", "shift", "slope"), *found, strict=True):
        assert ours.shape == theirs.shape
        # Sums over up to 700,000 terms, in another order.
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(1.0, theirs.abs().max().item())), name


def test_by_hand():
    norm = Norm(torch.tensor([1.0]), torch.tensor([4.0]), torch.tensor([2.0]), torch.tensor([1.0]), 0.0)
    x = torch.tensor([[3.0], [-5.0]])  # + 2 - 1, / 2, * 2, + 1 = 5 and -3
    y = frozen_prelu(x, torch.tensor([2.0]), norm, torch.tensor([0.5]))
    assert y.flatten().tolist() == [5.0, -1.5]
