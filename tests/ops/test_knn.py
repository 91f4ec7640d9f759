import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from afgrl.errors import UserError
from afgrl.ops import knn
from afgrl.ops import knn as knn_function

AWKWARD = [(1, 1), (63, 5), (65, 64), (65, 65), (200, 1)]


def cosine64(query, key):
    query, key = query.double(), key.double()
    return (query / query.norm(dim=1, keepdim=True)) @ (key / key.norm(dim=1, keepdim=True)).T


def test_by_hand():
    points = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 2.0]])
    assert knn(points, points, 2).index.tolist() == [[0, 1], [1, 0], [2, 1]]
    assert knn(points, points, 1, diagonal="drop").index.tolist() == [[1], [0], [1]]


@pytest.mark.parametrize(("n", "k"), AWKWARD)
@pytest.mark.parametrize("diagonal", ["keep", "first", "drop"])
def test_equals_float64_brute_force(n, k, diagonal, rng, monkeypatch):
    monkeypatch.setitem(knn_function.__globals__["BLOCK_BYTES"], "cpu", 4 * n * 7)  # blocks of seven rows
    query, key = torch.randn(n, 9, generator=rng), torch.randn(n, 9, generator=rng)
    truth = cosine64(query, key)
    if diagonal == "drop":
        truth.fill_diagonal_(-torch.inf)
        if k == n:
            with pytest.raises(UserError, match="possible"):
                knn(query, key, k, diagonal=diagonal)
            return
    found = knn(query, key, k, diagonal=diagonal)
    if diagonal == "first":
        assert torch.equal(found.index[:, 0], torch.arange(n))
        raised = truth.clone().fill_diagonal_(torch.inf)
        best = truth.gather(1, raised.topk(k, dim=1).indices)
    else:
        best = truth.topk(k, dim=1).values
    # Similarities are defined where ids are not: ties may swap. 1e-5 is float32's rounding of a cosine.
    assert torch.allclose(found.similarity.double(), best, atol=1e-5)
    assert torch.allclose(truth.gather(1, found.index), best, atol=1e-5)
    assert all(len(set(row)) == k for row in found.index.tolist())


def test_equals_scikit_learn(rng):
    x = torch.randn(150, 6, generator=rng)
    _, expected = NearestNeighbors(n_neighbors=8, metric="cosine").fit(x).kneighbors()
    assert np.array_equal(knn(x, x, 8, diagonal="drop").index, expected)


def test_duplicates_and_zero_rows_are_legal():
    x = torch.zeros(6, 3)
    x[:4] = 1.0
    found = knn(x, x, 4, diagonal="drop")
    assert torch.isfinite(found.similarity).all()
    assert (found.similarity[:4, :3] > 0.999).all()


@pytest.mark.parametrize("k", [0, 4])
def test_impossible_k_gets_one_sentence(k):
    with pytest.raises(UserError, match=f"{k} neighbors were asked for, but 1 to 3"):
        knn(torch.eye(3), torch.eye(3), k)
