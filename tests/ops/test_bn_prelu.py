"""Fused batch normalization and PReLU: by hand, against PyTorch's layers, and the Triton kernels against those."""

import pytest
import torch

from afgrl.ops.bn_prelu import FrozenNorm, fused_bn_prelu
from afgrl.ops.bn_prelu.cpu import BLOCK_BYTES
from afgrl.ops.bn_prelu.reference import fused_bn_prelu_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def leaves(n, d, rng):
    x, bias = torch.randn(n, d, generator=rng), torch.randn(d, generator=rng)
    gain, shift = torch.randn(2, d, generator=rng)
    return [part.clone().requires_grad_() for part in (x, bias, gain, shift, torch.tensor([0.2]))]


@pytest.mark.parametrize("function", [fused_bn_prelu, fused_bn_prelu_reference])
def test_by_hand(function):
    norm = FrozenNorm(torch.tensor([1.0]), torch.tensor([3.75]), torch.tensor([2.0]), torch.tensor([1.0]), 0.25)
    x = torch.tensor([[3.0], [-5.0]])  # + 2 - 1, / 2, * 2, + 1 = 5 and -3
    y = function(x, torch.tensor([2.0]), norm, torch.tensor([0.5]))
    assert y.flatten().tolist() == [5.0, -1.5]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 5), (1000, 700)])
def test_equals_the_layers_in_sequence(n, d, rng):
    assert BLOCK_BYTES < 4 * 1000 * 700  # so that the last size has several blocks
    mean, variance = torch.randn(d, generator=rng), torch.rand(d, generator=rng) + 0.1
    grad = torch.randn(n, d, generator=rng)
    found = []
    for function in (fused_bn_prelu, fused_bn_prelu_reference):
        x, bias, gain, shift, slope = inputs = leaves(n, d, torch.Generator().manual_seed(3))
        y = function(x, bias, FrozenNorm(mean, variance, gain, shift, 1e-5), slope)
        found.append([y.detach(), *torch.autograd.grad(y, inputs, grad)])
    for name, ours, theirs in zip(("y", "x", "bias", "gain", "shift", "slope"), *found, strict=True):
        assert ours.shape == theirs.shape
        # Sums over up to 700,000 terms, in another order.
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(1.0, theirs.abs().max().item())), name


@pytest.mark.parametrize(("n", "d"), [(1, 3), (63, 40), (100, 130)])
def test_the_kernels_and_their_gradients_equal_the_reference(n, d, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.bn_prelu.triton import backward_triton, forward_triton

    x, grad = torch.randn(2, n, d, generator=rng).to(DEVICE)
    bias, mean, gain, shift = torch.randn(4, d, generator=rng).to(DEVICE)
    norm = FrozenNorm(mean, torch.rand(d, generator=rng).to(DEVICE) + 0.1, gain, shift, 1e-5)
    slope = torch.tensor([0.25], device=DEVICE)
    inputs = [part.clone().requires_grad_() for part in (x, bias, gain, shift, slope)]
    y = fused_bn_prelu_reference(inputs[0], inputs[1], norm._replace(gain=inputs[2], shift=inputs[3]), inputs[4])
    assert torch.allclose(forward_triton(x, bias, norm, slope), y, atol=1e-5)
    expected = torch.autograd.grad(y, inputs, grad)
    for name, ours, theirs in zip(
        ("x", "bias", "gain", "shift", "slope"), backward_triton(grad, x, bias, norm, slope), expected, strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4), name  # sums over n·d terms in another order
