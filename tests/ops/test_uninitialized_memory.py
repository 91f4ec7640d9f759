"""The fixture that fills uninitialized memory, and that an operation with a missing write does not pass unnoticed."""

import pytest
import torch

from afgrl.ops.knn import BLOCK_BYTES, nearest_neighbors


@pytest.mark.parametrize(
    "allocate",
    [
        lambda dtype: torch.empty(2, 3, dtype=dtype),
        lambda dtype: torch.empty_like(torch.zeros(2, 3, dtype=dtype)),
        lambda dtype: torch.empty_strided((2, 3), (1, 2), dtype=dtype),
        lambda dtype: torch.zeros(1, dtype=dtype).new_empty(2, 3),
        lambda dtype: torch.zeros(1, dtype=dtype).new_empty_strided((2, 3), (1, 2)),
    ],
)
def test_uninitialized_tensors_are_filled_with_garbage(allocate):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert allocate(dtype).isnan().all()
    for dtype in (torch.int64, torch.int32, torch.int16):
        assert (allocate(dtype) > 10_000).all()
    assert allocate(torch.uint8).all()
    assert allocate(torch.bool).all()


def test_a_parameter_can_be_allocated():
    assert torch.empty(3, requires_grad=True).isnan().all()


def test_a_block_that_is_not_written_is_noticed(monkeypatch, rng):
    """The k-NN reference with blocks of five rows, of which the second forgets to write its result."""
    x = torch.randn(15, 4, generator=rng)
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 4 * 15 * 5)
    complete = nearest_neighbors(x, x, 3)
    assert complete.similarity.isfinite().all()
    calls, topk = [], torch.topk

    def skip_second(*args, **kwargs):
        calls.append(args)
        return topk(*args, **kwargs) if len(calls) != 2 else None

    monkeypatch.setattr(torch, "topk", skip_second)
    broken = nearest_neighbors(x, x, 3)
    assert broken.similarity[5:10].isnan().all()
    assert (broken.index[5:10] > 15).all()
    assert torch.equal(broken.index[:5], complete.index[:5])
