"""Sim@k equals the share of same-class neighbors of a brute-force neighbor search."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import NearestNeighbors

from afgrl.errors import UserError
from afgrl.evaluate import similarity, similarity_scores

both_layouts = pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def brute_force(x: np.ndarray, y: np.ndarray, k: int) -> float:
    neighbors = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(x)
    index = neighbors.kneighbors(return_distance=False)  # without a query, each row is excluded from its own neighbors
    return float((y[index] == y[:, None]).mean())


@pytest.mark.parametrize("n", [11, 63, 65, 300])
@both_layouts
def test_equals_brute_force(n: int, layout: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "SPARSE_BLOCK_BYTES", 4 * n * 17)  # several blocks, the last one is shorter
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 8)).astype(np.float32), rng.integers(3, size=n)
    scores = similarity_scores(layout(x), y)
    assert scores == {f"sim@{k}": pytest.approx(brute_force(x, y, k), abs=1e-9) for k in (5, 10)}


@both_layouts
def test_by_hand(layout: type) -> None:
    x = layout(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], dtype=np.float32))
    assert similarity_scores(x, [0, 0, 1, 1], ks=(1,)) == {"sim@1": 1.0}
    assert similarity_scores(x, [0, 1, 1, 1], ks=(1,)) == {"sim@1": 0.5}


@both_layouts
def test_a_node_is_not_its_own_neighbor_even_among_duplicates(layout: type) -> None:
    x = np.ones((6, 2), dtype=np.float32)
    assert similarity_scores(layout(x), np.arange(6)) == {"sim@5": 0.0, "sim@10": 0.0}


@both_layouts
def test_a_small_graph_uses_all_other_nodes(layout: type) -> None:
    x = np.eye(4, dtype=np.float32)
    assert similarity_scores(layout(x), [0, 0, 1, 1]) == {
        "sim@5": pytest.approx(1 / 3),
        "sim@10": pytest.approx(1 / 3),
    }


@both_layouts
def test_zero_rows_are_accepted(layout: type) -> None:
    scores = similarity_scores(layout(np.zeros((12, 3), dtype=np.float32)), np.arange(12) % 2)
    assert np.isfinite(list(scores.values())).all()


def test_two_nodes_have_one_neighbor_each() -> None:
    assert similarity_scores(torch.eye(2), [0, 0]) == {"sim@5": 1.0, "sim@10": 1.0}


def test_one_node_has_no_neighbors() -> None:
    with pytest.raises(UserError, match="needs at least two nodes, but the embedding has one row"):
        similarity_scores(np.ones((1, 3), dtype=np.float32), [0])
