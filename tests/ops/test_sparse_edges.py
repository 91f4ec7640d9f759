"""Products along the entries of a sparse matrix, compared with a dense matrix."""

import pytest
import torch

from afgrl.ops.sparse import edges
from afgrl.ops.sparse.edges import edge_products, learned_spmm, row_softmax
from afgrl.ops.sparse.matrix import SparseMatrix

SHAPE = (5, 4)
ROWS, COLUMNS = torch.tensor([0, 0, 1, 1, 1, 3, 4]), torch.tensor([1, 3, 0, 1, 2, 3, 0])  # row 2 is empty


@pytest.fixture
def matrix():
    return SparseMatrix.from_coo(ROWS, COLUMNS, SHAPE)


def numbers(*shape, rng):
    return torch.randn(*shape, generator=rng, dtype=torch.float64, requires_grad=True)


def test_products_and_their_gradients(matrix, rng, monkeypatch):
    monkeypatch.setattr(edges, "CHUNK_BYTES", 2 * 8 * 3 * 2)  # two entries at a time
    u, v = numbers(5, 3, rng=rng), numbers(4, 3, rng=rng)
    assert torch.allclose(edge_products(matrix, u, v), (u @ v.T)[ROWS, COLUMNS])
    assert torch.autograd.gradcheck(lambda u, v: edge_products(matrix, u, v), [u, v])


def test_a_product_has_gradients_by_values_and_table(matrix, rng):
    values, h = numbers(7, rng=rng), numbers(4, 3, rng=rng)
    dense = torch.zeros(SHAPE, dtype=torch.float64).index_put((ROWS, COLUMNS), values)
    assert torch.allclose(learned_spmm(matrix, values, h), dense @ h)
    assert torch.autograd.gradcheck(lambda values, h: learned_spmm(matrix, values, h), [values, h])


def test_the_softmax_of_each_row(matrix, rng):
    logits = numbers(7, rng=rng)
    dense = torch.full(SHAPE, -torch.inf, dtype=torch.float64).index_put((ROWS, COLUMNS), logits)
    expected = dense.softmax(1)[ROWS, COLUMNS]
    assert torch.allclose(row_softmax(matrix, logits), expected)
    assert torch.allclose(row_softmax(matrix, logits + 1e3), expected)  # no overflow
    assert torch.autograd.gradcheck(lambda logits: row_softmax(matrix, logits), [logits])


def test_a_matrix_without_entries(rng):
    empty = SparseMatrix.from_coo(ROWS[:0], COLUMNS[:0], SHAPE)
    u, v = numbers(5, 3, rng=rng), numbers(4, 3, rng=rng)
    assert edge_products(empty, u, v).shape == (0,)
    assert row_softmax(empty, u.new_zeros(0)).shape == (0,)
