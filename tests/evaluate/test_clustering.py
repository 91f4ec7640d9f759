"""Scores equal scikit-learn's on the same labels; the clusterings are as good as its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn import metrics
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from afgrl.evaluate import cluster_scores, clustering
from afgrl.evaluate.clustering import ari, contingencies, homogeneity, nmi

Digits = tuple[np.ndarray, np.ndarray]


def table_of(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return contingencies(torch.from_numpy(y), torch.from_numpy(labels)[None])[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "c", "k"), [(1, 1, 1), (2, 2, 2), (63, 5, 5), (500, 7, 3), (500, 1, 4), (500, 4, 1)])
def test_scores_equal_scikit_learns(n: int, c: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, labels = rng.integers(c, size=n), rng.integers(k, size=n)
    labels = np.where(rng.random(n) < 0.5, np.minimum(y, k - 1), labels)
    table = table_of(y, labels)
    assert nmi(table) == pytest.approx(metrics.normalized_mutual_info_score(y, labels), abs=1e-10)
    assert nmi(table) == pytest.approx(metrics.v_measure_score(y, labels), abs=1e-10)
    assert homogeneity(table) == pytest.approx(metrics.homogeneity_score(y, labels), abs=1e-10)
    assert ari(table) == pytest.approx(metrics.adjusted_rand_score(y, labels), abs=1e-10)


def test_by_hand_a_perfect_clustering_whatever_its_numbers() -> None:
    x = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    scores = cluster_scores(x, np.repeat([2, 0, 1], 4), torch.Generator().manual_seed(0), n_fits=3)
    assert scores == {name: pytest.approx([1.0] * 3) for name in ("nmi", "homogeneity", "ari")}


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_clusterings_are_as_good_as_scikit_learns(digits: Digits, layout: type) -> None:
    x, y = digits
    scores = cluster_scores(layout(x), y, torch.Generator().manual_seed(0), n_fits=10, n_init=3)
    fits = [KMeans(10, n_init=3, random_state=seed).fit(normalize(x)).labels_ for seed in range(10)]
    theirs = np.mean([metrics.normalized_mutual_info_score(y, labels) for labels in fits])
    assert np.mean(scores["nmi"]) == pytest.approx(theirs, abs=0.03)  # ten fits spread by about 0.02


def test_inertia_of_best_restart_is_as_low_as_scikit_learns(digits: Digits) -> None:
    x = torch.nn.functional.normalize(torch.from_numpy(digits[0]))
    _, inertia = clustering._restarts(x, 10, 20, torch.Generator().manual_seed(0))
    theirs = KMeans(10, n_init=20, random_state=0).fit(x.numpy()).inertia_
    assert float(inertia.min()) == pytest.approx(theirs, rel=0.01)


def test_batches_hold_whole_fits(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BATCH_BYTES", 1)
    scores = cluster_scores(*digits, torch.Generator().manual_seed(0), n_fits=3, n_init=2)
    assert [len(values) for values in scores.values()] == [3, 3, 3]


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_same_seed_same_numbers_and_the_global_generators_are_left_alone(digits: Digits, layout: type) -> None:
    x, y = layout(digits[0]), digits[1]
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (cluster_scores(x, y, torch.Generator().manual_seed(5), n_fits=2) for _ in range(2))
    assert first == again
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == before_numpy).all()  # noqa: NPY002


def test_rows_of_zeros_and_duplicates_are_legal() -> None:
    scores = cluster_scores(np.zeros((9, 3), dtype=np.float32), np.arange(9) % 3, torch.Generator().manual_seed(0))
    assert np.isfinite(list(scores.values())).all()
