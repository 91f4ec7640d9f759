"""Sim@k is the share of same-class neighbors that a brute-force search finds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import NearestNeighbors

from afgrl.errors import UserError
from afgrl.evaluate import rows, similarity, similarity_scores


def brute_force(x: np.ndarray, y: np.ndarray, k: int) -> float:
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(x)
    index = search.kneighbors(return_distance=False)  # without a query each row leaves itself out
    return float((y[index] == y[:, None]).mean())


@pytest.mark.parametrize("n", [11, 63, 65, 300])
@pytest.mark.parametrize("layout", [torch.from_numpy, sp.csr_array], ids=["dense", "sparse"])
def test_equals_brute_force(n: int, layout: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "SPARSE_BLOCK_BYTES", 4 * n * 17)  # several blocks, the last one short
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 8)).astype(np.float32), rng.integers(3, size=n)
    scores = similarity_scores(layout(x), y)
    assert scores == {f"sim@{k}": pytest.approx(brute_force(x, y, k), abs=1e-9) for k in (5, 10)}


def test_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    assert similarity_scores(x, [0, 0, 1, 1], ks=(1,)) == {"sim@1": 1.0}
    assert similarity_scores(x, [0, 1, 1, 1], ks=(1,)) == {"sim@1": 0.5}


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_small_graph_uses_all_the_others(layout: type) -> None:
    x = np.eye(4, dtype=np.float32)
    assert similarity_scores(layout(x), [0, 0, 1, 1]) == {
        "sim@5": pytest.approx(1 / 3),
        "sim@10": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_of_zeros_are_legal(layout: type) -> None:
    scores = similarity_scores(layout(np.zeros((12, 3), dtype=np.float32)), np.arange(12) % 2)
    assert np.isfinite(list(scores.values())).all()


def test_one_node_has_no_neighbors() -> None:
    with pytest.raises(UserError, match="at least two nodes"):
        similarity_scores(np.ones((1, 3), dtype=np.float32), [0])


def test_a_sparse_table_stays_sparse_unless_dense_is_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    thin, full = sp.csr_array(np.eye(9, 4)), sp.csr_array(np.ones((9, 4)))
    assert rows.is_sparse(rows.checked(thin, np.zeros(9))[0])
    assert not rows.is_sparse(rows.checked(full, np.zeros(9))[0])
