"""Exact nearest neighbors: by hand, against float64 and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from afgrl.errors import UserError
from afgrl.ops.knn import BLOCK_BYTES, nearest_neighbors
from afgrl.ops.knn.blocks import nearest_in_blocks

AWKWARD = [(1, 1), (63, 5), (65, 64), (65, 65), (200, 1)]


def cosine64(query, key):
    query, key = query.double(), key.double()
    return (query / query.norm(dim=1, keepdim=True)) @ (key / key.norm(dim=1, keepdim=True)).T


def test_by_hand():
    points = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 2.0]])
    assert nearest_neighbors(points, points, 2).index.tolist() == [[0, 1], [1, 0], [2, 1]]
    assert nearest_neighbors(points, points, 1, diagonal="drop").index.tolist() == [[1], [0], [1]]


@pytest.mark.parametrize(("n", "k"), AWKWARD)
@pytest.mark.parametrize("diagonal", ["keep", "first", "drop"])
def test_equals_float64(n, k, diagonal, rng, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 4 * n * 7)  # blocks of seven rows
    query, key = torch.randn(n, 9, generator=rng), torch.randn(n, 9, generator=rng)
    truth = cosine64(query, key)
    if diagonal == "drop":
        truth.fill_diagonal_(-torch.inf)
        if k == n:
            with pytest.raises(UserError, match=f"must be between 1 and {n - 1}, not {n}"):
                nearest_neighbors(query, key, k, diagonal=diagonal)
            return
    found = nearest_neighbors(query, key, k, diagonal=diagonal)
    if diagonal == "first":
        assert torch.equal(found.index[:, 0], torch.arange(n))
        raised = truth.clone().fill_diagonal_(torch.inf)
        best = truth.gather(1, raised.topk(k, dim=1).indices)
    else:
        best = truth.topk(k, dim=1).values
    # Similarities are unique, but ties may swap indices. 1e-5 is float32's rounding of a cosine.
    assert torch.allclose(found.similarity.double(), best, atol=1e-5)
    assert torch.allclose(truth.gather(1, found.index), best, atol=1e-5)
    assert all(len(set(row)) == k for row in found.index.tolist())


def test_equals_scikit_learn(rng):
    x = torch.randn(150, 6, generator=rng)
    _, expected = NearestNeighbors(n_neighbors=8, metric="cosine").fit(x).kneighbors()
    assert np.array_equal(nearest_neighbors(x, x, 8, diagonal="drop").index, expected)


def test_duplicates_and_zero_rows_are_allowed():
    x = torch.zeros(6, 3)
    x[:4] = 1.0
    found = nearest_neighbors(x, x, 4, diagonal="drop")
    assert torch.isfinite(found.similarity).all()
    assert (found.similarity[:4, :3] > 0.999).all()


@pytest.mark.parametrize("k", [0, 4])
def test_an_impossible_k_is_refused(k):
    with pytest.raises(UserError, match=f"The number of neighbors must be between 1 and 3, not {k}"):
        nearest_neighbors(torch.eye(3), torch.eye(3), k)


def test_a_diagonal_needs_as_many_queries_as_keys():
    with pytest.raises(UserError, match="diagonal='first' needs as many queries as keys, not 2 and 3"):
        nearest_neighbors(torch.eye(3)[:2], torch.eye(3), 1, diagonal="first")
    assert nearest_neighbors(torch.eye(3)[:2], torch.eye(3), 1).index.tolist() == [[0], [1]]


@pytest.mark.parametrize("sizes", [[40], [7, 1, 20, 12], [1] * 40])
def test_keys_in_blocks_give_the_neighbors_of_all_keys(sizes):
    rng = torch.Generator().manual_seed(0)
    query, key = torch.randn(5, 6, generator=rng), torch.randn(40, 6, generator=rng)
    expected, found = nearest_neighbors(query, key, 9), nearest_in_blocks(query, key.split(sizes), 9)
    assert torch.equal(found.index, expected.index)
    # A product with one key is summed in another order than one with many.
    torch.testing.assert_close(found.similarity, expected.similarity, rtol=0, atol=1e-6)
    assert nearest_in_blocks(query, key[:3].split(2), 9).index.shape == (5, 3)
