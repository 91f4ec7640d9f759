"""Batches of rows: equal to rows of the dense table, with dropout and gradients."""

import pytest
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.ops.sparse import batches
from afgrl.ops.sparse.batches import RowTable


@pytest.fixture(params=["dense", "sparse"])
def table(request):
    x = csr_from_scipy(sp.random_array((30, 12), density=0.3, rng=1))
    return RowTable.of(x if request.param == "sparse" else x.to_dense()), x.to_dense()


def dense(batch):
    return batch if isinstance(batch, torch.Tensor) else batch @ torch.eye(batch.shape[1])


@pytest.mark.parametrize(
    "rows", [torch.tensor([3, 0, 3, 29]), slice(4, 9), slice(None), torch.tensor([], dtype=torch.int64)]
)
def test_rows_equal_those_of_the_dense_table(table, rows):
    ours, expected = table
    assert ours.shape == (30, 12)
    assert torch.allclose(dense(ours.rows(rows)), expected[rows])


def test_the_gradient_of_a_product_with_weights_is_that_of_dense_rows(table, rng):
    ours, expected = table
    rows = torch.tensor([5, 1, 5, 8])
    weights = torch.randn(12, 4, generator=rng, requires_grad=True)
    upstream = torch.randn(4, 4, generator=rng)
    (ours.rows(rows) @ weights * upstream).sum().backward()
    assert torch.allclose(weights.grad, expected[rows].T @ upstream, atol=1e-6)


def test_dropout_drops_its_share_of_the_entries_and_scales_the_others(table, rng):
    ours, expected = table
    rows = torch.arange(30).repeat(50)
    batch, whole = dense(ours.rows(rows, 0.75, rng)), expected[rows]
    kept = batch != 0
    assert torch.allclose(batch[kept], 4 * whole[kept])
    assert kept[whole != 0].float().mean().item() == pytest.approx(0.25, abs=0.02)  # of 5,400 entries
    assert not torch.equal(dense(ours.rows(rows, 0.75, rng)), batch)


def test_dropout_draws_from_the_given_generator(table):
    ours, _ = table
    first, second = (ours.rows(slice(0, 9), 0.5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(dense(first), dense(second))


def test_chunks_cover_all_rows_once_within_the_memory_bound(table, monkeypatch):
    ours, _ = table
    monkeypatch.setattr(batches, "CHUNK_BYTES", 4 * 7 * (5 + (12 if ours.dense is not None else 0)))
    chunks = ours.chunks(width=5)
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(30))
    assert all(chunk.stop - chunk.start <= 7 for chunk in chunks)
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)
    assert len(ours.chunks(width=5)) == 30  # one row at a time if a row is larger than the bound


def test_rows_of_a_table_that_stays_on_a_gpu(rng):
    """The same code with tensors on a CPU: some rows, their product, its gradient, and dropout."""
    dense = torch.randn(9, 7, generator=rng) * (torch.rand(9, 7, generator=rng) < 0.4)
    dense[3] = 0
    table = RowTable(csr=dense.to_sparse_csr())
    assert (table.shape, table.device.type, table.has_fixed_sizes) == ((9, 7), "cpu", False)
    weight = torch.randn(7, 5, generator=rng, requires_grad=True)
    for index in (torch.tensor([8, 3, 3, 0, 5]), slice(2, 6), slice(None)):
        rows = table.rows(index)
        assert rows.shape == (len(dense[index]), 7)
        product = rows @ weight
        assert torch.allclose(product, dense[index] @ weight, atol=1e-6)  # sums of at most seven numbers
        (gradient,) = torch.autograd.grad(product.square().sum(), weight)
        expected = 2 * dense[index].T @ (dense[index] @ weight)
        assert torch.allclose(gradient, expected, atol=1e-5)
    one = torch.eye(7)
    dropped = table.rows(slice(None), 0.5, torch.Generator().manual_seed(0)) @ one
    kept = dropped != 0
    assert 0 < kept.sum() < (dense != 0).sum()
    assert torch.equal(dropped[kept], 2 * dense[kept])
