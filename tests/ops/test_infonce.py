"""InfoNCE: by hand, against float64, in blocks, and its kernels on a GPU or in Triton's interpreter."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from afgrl.errors import UserError
from afgrl.ops import infonce
from afgrl.ops.infonce import cpu, info_nce
from afgrl.ops.infonce.reference import info_nce_reference

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
TEMPERATURE = 0.4
# The error of a cosine from rounding both operands, an ulp each: matrix units truncate float32 to tf32, and the
# interpreter truncates to bf16.
ROUNDED = {"float32": 1e-6, "tf32": 2**-9, "bf16": 2**-6}
# Small tiles, so that there are several tiles and splits; "steps" has several steps over the columns.
SMALL = {"whole": (32, 16, 4, 2), "steps": (16, 32, 4, 2, 32)}


@pytest.fixture
def kernels():
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.infonce import triton

    return triton


def views(n, d, rng):
    z1 = torch.randn(n, d, generator=rng)
    return z1, 2 * z1 + torch.randn(n, d, generator=rng)  # similar, with different lengths


def term_by_term(z1, z2, temperature):
    """The loss as it is written in the paper, row by row."""
    total = 0
    for one, other in ((z1, z2), (z2, z1)):
        for i in range(len(z1)):
            across = torch.exp(F.cosine_similarity(one[i], other, dim=-1) / temperature)
            within = torch.exp(F.cosine_similarity(one[i], one, dim=-1) / temperature)
            rest = [within[j] for j in range(len(z1)) if j != i]
            total = total - torch.log(across[i] / (across.sum() + sum(rest)))
    return total / (2 * len(z1))


def with_gradient(loss, z1, z2, *args, **options):
    """The loss and the gradient of its negative: a backward pass must use the incoming gradient."""
    z1, z2 = (z.detach().clone().requires_grad_() for z in (z1, z2))
    value = loss(z1, z2, *args, **options)
    return value.detach(), torch.cat(torch.autograd.grad(-value, (z1, z2)))


@pytest.mark.parametrize("loss", [info_nce, info_nce_reference])
def test_by_hand(loss):
    z1, z2 = torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, -1.0]])
    # Cosines of the first node: 1 with its partner, 0 with the two others; of the second: -1, 0 and 0.
    first, second = math.log(math.e**2 + 2) - 2, math.log(math.e**-2 + 2) + 2
    assert loss(z1, z2, 0.5).item() == pytest.approx((first + second) / 2, rel=1e-6)
    assert loss(z1, z1, 0.5).item() == pytest.approx(math.log(math.e**2 + 2) - 2, rel=1e-6)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("n", [1, 2, 17])
def test_reference_equals_term_by_term_in_float64(n, temperature, rng):
    z1, z2 = views(n, 5, rng)
    expected, slope = with_gradient(term_by_term, z1.double(), z2.double(), temperature)
    value, gradient = with_gradient(info_nce_reference, z1.double(), z2.double(), temperature)
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    assert torch.allclose(gradient, slope, rtol=1e-9, atol=1e-12)  # sums in another order
    value, gradient = with_gradient(info_nce_reference, z1, z2, temperature)
    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient.double(), slope, atol=1e-5)


@pytest.mark.parametrize("block", [1, 11, 64, 10_000])  # rows at a time; 11 divides none of the sizes
@pytest.mark.parametrize("n", [1, 2, 63, 65, 200])
def test_blocks_equal_the_reference(n, block, rng, monkeypatch):
    monkeypatch.setattr(cpu, "BLOCK_BYTES", block * 2 * n * 4)
    z1, z2 = views(n, 9, rng)
    blocks = [rows for rows, _ in cpu._exponentials(F.normalize(torch.cat([z1, z2])), TEMPERATURE)]
    assert len(blocks) == math.ceil(2 * n / block)
    expected, slope = with_gradient(info_nce_reference, z1, z2, TEMPERATURE)
    value, gradient = with_gradient(info_nce, z1, z2, TEMPERATURE)
    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    # Float32 sums in another order; entries are of the order of 1 / n.
    assert torch.allclose(gradient, slope, rtol=1e-4, atol=1e-5 / n)


@pytest.mark.parametrize("temperature", [0.01, 0.5])
@pytest.mark.parametrize("version", ["reference", "cpu", "triton"])
def test_equal_rows_and_zero_rows_give_finite_results(version, temperature, rng, kernels, monkeypatch):
    monkeypatch.setattr(infonce, "takes_kernels", lambda x: version == "triton")
    loss = info_nce_reference if version == "reference" else info_nce
    z1, z2 = (z.to(DEVICE) for z in views(12, 5, rng))
    z1[3:7], z2[3:7], z1[8], z2[9] = z1[2], z1[2], 0, 0
    opposite = torch.ones(1, 2, device=DEVICE)
    for pair in ((z1, z2), (opposite, -opposite)):
        value, gradient = with_gradient(loss, *pair, temperature)
        assert torch.cat([value.view(1), gradient.flatten()]).isfinite().all()


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation creates."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        made = out if isinstance(out, tuple | list) else [out]
        self.numel = max([self.numel, *(part.numel() for part in made if isinstance(part, torch.Tensor))])
        return out


def test_no_tensor_has_size_n_squared(rng, monkeypatch):
    n, d = 500, 6
    monkeypatch.setattr(cpu, "BLOCK_BYTES", 4 * 20 * 2 * n)
    with Largest() as blocks:
        with_gradient(info_nce, *views(n, d, rng), TEMPERATURE)
    assert blocks.numel == 20 * 2 * n  # a block of 20 rows; the table of all rows is smaller
    with Largest() as reference:
        with_gradient(info_nce_reference, *views(n, d, rng), TEMPERATURE)
    assert reference.numel == (2 * n) ** 2


def test_the_reference_can_be_requested(rng, monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", "reference")
    monkeypatch.setattr(infonce, "_InfoNCE", None)
    z1, z2 = views(4, 3, rng)
    assert torch.equal(info_nce(z1, z2, 0.5), info_nce_reference(z1, z2, 0.5))


@pytest.mark.parametrize(
    ("one", "other"), [((5, 3), (4, 3)), ((5, 3), (5, 2)), ((5,), (5,)), ((0, 3), (0, 3)), ((3, 0), (3, 0))]
)
def test_views_of_different_shapes_are_refused(one, other):
    with pytest.raises(UserError, match=r"non-empty matrices of the same shape, not \([\d, ]+\) and \([\d, ]+\)\."):
        info_nce(torch.ones(one), torch.ones(other), 0.5)


@pytest.mark.parametrize("temperature", [0, -0.1, math.nan])
def test_an_impossible_temperature_is_refused(temperature):
    with pytest.raises(UserError, match=rf"The temperature must be above 0, not {temperature}\."):
        info_nce(torch.ones(2, 3), torch.ones(2, 3), temperature)


@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize(
    ("n", "d", "tiles"),
    [
        (1, 3, ""), (63, 40, ""), (65, 130, ""), (20, 256, ""), (66, 70, "whole"), (40, 70, "steps"),
        (20, 257, ""), (20, 512, ""), (70, 580, "steps"),
    ],
)  # fmt: skip
def test_kernels_equal_float64(n, d, tiles, precision, rng, kernels, monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK_BYTES", 4 * 160 * 50)  # several blocks of wide rows, the last one shorter
    unit = F.normalize(torch.cat(views(n, d, rng))).to(DEVICE)
    size = kernels.Tiles(*SMALL[tiles]) if tiles else None
    exact = unit.double()
    exponentials = torch.exp((exact @ exact.T - 1) / TEMPERATURE).fill_diagonal_(0)
    denominator = exponentials.sum(1)
    found = kernels.denominator_triton(unit, TEMPERATURE, precision, size)
    # The exponential turns the error of a cosine into a relative error; 1e-6 for float32 itself.
    relative = math.expm1(ROUNDED[precision] / TEMPERATURE) + 1e-6
    assert found.shape == (2 * n,)
    assert torch.allclose(found.double(), denominator, rtol=relative)
    found = kernels.repulsion_triton(unit, (1 / denominator).float(), TEMPERATURE, precision, size)
    assert found.shape == (2 * n, d)
    weight = exponentials * (1 / denominator[:, None] + 1 / denominator)
    # Each weight has this error and is rounded once more, as is the row it multiplies.
    error = (found.double() - weight @ exact).norm(dim=1)
    assert (error <= (relative + ROUNDED[precision]) * weight.sum(1)).all()


@pytest.mark.parametrize("precision", ROUNDED)
def test_rows_with_nearly_the_same_direction(precision, rng, kernels, monkeypatch):
    """As those of an untrained encoder: their differences are below the resolution of bf16."""
    monkeypatch.setattr(infonce, "takes_kernels", lambda x: True)
    common = torch.randn(1, 32, generator=rng)
    z1, z2 = ((common + 0.01 * z).to(DEVICE).requires_grad_() for z in views(60, 32, rng))
    exact = [z.detach().double().requires_grad_() for z in (z1, z2)]
    found = torch.autograd.grad(info_nce(z1, z2, TEMPERATURE, precision=precision), (z1, z2))
    expected = torch.autograd.grad(info_nce_reference(*exact, TEMPERATURE), exact)
    for ours, theirs in zip(found, expected, strict=True):
        # After the mean is subtracted, the error of a row is relative to the differences.
        assert (ours.double() - theirs).norm() < 0.01 * theirs.norm()


@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize(("n", "d"), [(1, 20), (65, 20), (3, 257)])
def test_loss_and_gradient_of_the_kernels_equal_the_reference(n, d, precision, rng, kernels, monkeypatch):
    monkeypatch.setattr(infonce, "takes_kernels", lambda x: True)
    z1, z2 = (z.to(DEVICE) for z in views(n, d, rng))
    expected, slope = with_gradient(info_nce_reference, z1, z2, TEMPERATURE)
    value, gradient = with_gradient(info_nce, z1, z2, TEMPERATURE, precision=precision)
    relative = math.expm1(ROUNDED[precision] / TEMPERATURE) + 1e-5
    assert value.item() == pytest.approx(expected.item(), abs=relative)  # the logarithm of a relative error
    # A row of the gradient is a sum divided by 2n τ |z|. Its weights of about 2 have the error above and that of 1/D.
    error = (gradient - slope).norm(dim=1) * torch.cat([z1, z2]).norm(dim=1) * 2 * n * TEMPERATURE
    assert error.max() <= 2 * (2 * relative + ROUNDED[precision])


@pytest.mark.parametrize(("tiles", "splits"), [((1, 1), 1), ((132, 264), 1), ((66, 132), 2), ((282, 564), 3)])
def test_keys_are_split_if_multiprocessors_would_be_idle(tiles, splits, kernels):
    assert kernels._splits(*tiles) == splits


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("precision", ROUNDED)
@pytest.mark.parametrize("d", [64, 128, 256, 300, 512, 600, 2048])
def test_many_rows_on_a_gpu(d, precision, rng):
    z1, z2 = (z.to(DEVICE) for z in views(3001, d, rng))
    expected, slope = with_gradient(info_nce_reference, z1.double(), z2.double(), TEMPERATURE)
    value, gradient = with_gradient(info_nce, z1, z2, TEMPERATURE, precision=precision)
    # The errors of this many terms cancel; 1e-5 for float32 itself.
    assert value.item() == pytest.approx(expected.item(), abs=ROUNDED[precision] + 1e-5)
    assert (gradient - slope).norm() <= 4 * (ROUNDED[precision] + 1e-5) * slope.norm()
