import pytest
import torch

from afgrl.ops.embedding import embedding_rows


def test_rows_and_their_gradients_equal_indexing(rng):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours, theirs = (torch.randn(7, 3, generator=rng).to(device) for _ in range(2))
    theirs.copy_(ours)
    index = torch.tensor([[0, 3, 3], [6, 0, 3]], device=device)  # some rows several times, some never
    factor = torch.randn(2, 3, 3, generator=rng).to(device)
    for table in (ours.requires_grad_(), theirs.requires_grad_()):
        rows = embedding_rows(table, index) if table is ours else table[index]
        assert torch.equal(rows, table[index])
        (rows * factor).sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)


def test_the_kernel_sums_gradients_as_the_reference(rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.embedding.reference import sum_by_row_reference
    from afgrl.ops.embedding.triton import sum_by_row_triton

    device = "cuda" if torch.cuda.is_available() else "cpu"
    index = torch.randint(9, (300,), generator=rng).to(device)
    index[index == 4] = 5  # a row that does not occur
    grad = torch.randn(300, 33, generator=rng).to(device)
    assert torch.allclose(sum_by_row_triton(grad, index, 9), sum_by_row_reference(grad, index, 9), atol=1e-4)
