"""Leading singular vectors: by hand, against PyTorch's complete decomposition, and properties."""

import pytest
import torch

from afgrl.ops.svd import OVERSAMPLING, feature_basis, gram_matrix, leading_eigenvectors, rows_to_fit


def decaying(n, f, rng, rate=0.9):
    """A table whose singular values are 1, rate, rate², …, and those values."""
    left = torch.linalg.qr(torch.randn(n, f, generator=rng))[0]
    right = torch.linalg.qr(torch.randn(f, f, generator=rng))[0]
    values = rate ** torch.arange(f)
    return left * values @ right.T, values


def test_eigenvectors_by_hand():
    found = leading_eigenvectors(torch.tensor([[2.0, 1.0], [1.0, 2.0]]), 1)
    assert torch.allclose(found, torch.full((2, 1), 0.5**0.5))  # eigenvalue 3, positive by convention
    assert torch.allclose(leading_eigenvectors(torch.diag(torch.tensor([1.0, 5.0, 3.0])), 2), torch.eye(3)[:, [1, 2]])


@pytest.mark.parametrize("rank", [3, 20, 60, 200])  # subspace iteration for the first two, then all vectors
def test_eigenvectors_equal_those_of_a_complete_decomposition(rank, rng):
    table, values = decaying(300, 200, rng)
    gram = table.T @ table
    found = leading_eigenvectors(gram, rank)
    assert found.shape == (200, rank)
    # Beyond the 60th, eigenvalues are below float32's resolution of the largest one.
    assert torch.allclose(found.T @ found, torch.eye(rank), atol=1e-4)
    kept = min(rank, 40)
    assert torch.allclose((gram @ found).norm(dim=0)[:kept], values[:kept].square(), rtol=1e-2, atol=1e-5)
    largest = found.abs().argmax(0)
    assert (found[largest, torch.arange(rank)] > 0).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_the_basis_spans_the_leading_directions(sparse, rng):
    table, values = decaying(150, 90, rng, rate=0.8)
    table = table.to_sparse_csr() if sparse else table
    basis = feature_basis(table, 10)
    assert basis.shape == (90, 10)
    assert torch.allclose(basis.T @ basis, torch.eye(10), atol=1e-5)
    lengths = (table @ basis).norm(dim=0)
    assert torch.allclose(lengths, values[:10], rtol=1e-3)


def test_more_directions_than_columns_are_an_orthonormal_basis(rng):
    basis = feature_basis(torch.randn(50, OVERSAMPLING // 2, generator=rng), OVERSAMPLING)
    assert basis.shape == (OVERSAMPLING // 2, OVERSAMPLING // 2)
    assert torch.allclose(basis.T @ basis, torch.eye(OVERSAMPLING // 2), atol=1e-5)


def test_the_same_table_gives_the_same_bits_and_the_global_generator_is_left_alone(rng):
    table = torch.randn(40, 60, generator=rng)
    before = torch.get_rng_state()
    assert torch.equal(feature_basis(table, 5), feature_basis(table, 5))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_table_of_zeros_has_a_finite_basis():
    assert torch.isfinite(feature_basis(torch.zeros(20, 100), 5)).all()
    assert torch.isfinite(leading_eigenvectors(torch.zeros(100, 100), 5)).all()


def test_the_gram_matrix_of_blocks_is_that_of_the_table(rng):
    table = torch.randn(23, 4, generator=rng)
    assert torch.allclose(gram_matrix(table.split(5)), table.T @ table, atol=1e-5)


def test_directions_of_long_tables_are_fitted_to_evenly_spaced_rows():
    assert rows_to_fit(65_535) == slice(0, 65_535, 1)
    assert len(range(119_505)[rows_to_fit(119_505)]) == 39_835
