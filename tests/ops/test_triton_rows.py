import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("triton", reason="Triton supports Linux only")

from afgrl.ops.triton_rows import padded_rows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_padding_adds_only_zeros(rng):
    x = torch.randn(5, 70, generator=rng).to(DEVICE)
    x[3] = 0
    rows, inverse = padded_rows(x, "float32", multiple=16, unit=True)
    assert rows.shape == (16, 128)
    assert torch.allclose(rows[:5, :70], F.normalize(x), atol=1e-6)
    assert rows[5:].abs().sum() == rows[:, 70:].abs().sum() == 0
    assert torch.allclose(1 / inverse[:3], x[:3].norm(dim=1))


@pytest.mark.parametrize(("precision", "dtype"), [("float32", "float32"), ("tf32", "float32"), ("bf16", "bfloat16")])
def test_rows_have_the_dtype_of_the_precision(precision, dtype, rng):
    x = torch.randn(3, 5, generator=rng).to(DEVICE)
    rows, _ = padded_rows(x, precision, multiple=16, unit=False)
    assert rows.dtype == getattr(torch, dtype)
    assert torch.allclose(rows[:3, :5].float(), x, rtol=2**-7)  # the interpreter truncates to bf16
