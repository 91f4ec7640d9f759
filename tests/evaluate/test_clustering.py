"""Clusterings are as good as scikit-learn's, and their scores are those of its metrics."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn import metrics
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from afgrl.evaluate import cluster_scores, clustering

Digits = tuple[np.ndarray, np.ndarray]
both_layouts = pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_scores_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    y, labels = np.array([0, 0, 0, 1, 1, 1]), torch.tensor([[0, 0, 1, 1, 1, 1]])
    monkeypatch.setattr(clustering, "_fit_dense", lambda *arguments: labels)
    scores = cluster_scores(np.ones((6, 2), dtype=np.float32), y, generator())
    classes = math.log(2)  # entropy of the classes, 3 and 3
    clusters = -(1 / 3 * math.log(1 / 3) + 2 / 3 * math.log(2 / 3))  # entropy of the clusters, 2 and 4
    within = 2 / 3 * -(1 / 4 * math.log(1 / 4) + 3 / 4 * math.log(3 / 4))  # entropy of the classes in the clusters
    shared = classes - within
    assert scores["homogeneity"] == [pytest.approx(shared / classes)]
    assert scores["nmi"] == [pytest.approx(2 * shared / (classes + clusters))]
    # Pairs in one class and cluster: 1 + 0 + 3. Pairs in one class: 6; in one cluster: 7; in total: 15.
    assert scores["ari"] == [pytest.approx((4 - 6 * 7 / 15) / ((6 + 7) / 2 - 6 * 7 / 15))]


@both_layouts
def test_a_perfect_clustering_scores_one(layout: type) -> None:
    x = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    scores = cluster_scores(layout(x), np.repeat([2, 0, 1], 4), generator(), n_fits=3)
    assert scores == {name: pytest.approx([1.0] * 3) for name in ("nmi", "homogeneity", "ari")}


@both_layouts
def test_only_directions_are_clustered(layout: type) -> None:
    directions = np.repeat([[1.0, 0.1], [0.1, 1.0]], 10, axis=0)
    lengths = np.tile([1.0, 100.0], 10)[:, None]  # in both classes
    x = layout((directions * lengths).astype(np.float32))
    assert cluster_scores(x, np.repeat([0, 1], 10), generator(), n_fits=2)["nmi"] == pytest.approx([1.0, 1.0])


@both_layouts
def test_clusterings_are_as_good_as_scikit_learns(digits: Digits, layout: type) -> None:
    x, y = digits
    scores = cluster_scores(layout(x), y, generator(), n_fits=10, n_init=3)
    fits = [KMeans(10, n_init=3, random_state=seed).fit(normalize(x)).labels_ for seed in range(10)]
    theirs = np.mean([metrics.normalized_mutual_info_score(y, labels) for labels in fits])
    assert np.mean(scores["nmi"]) == pytest.approx(theirs, abs=0.03)  # the std of ten fits is about 0.02


def test_inertia_of_the_best_restart_is_as_low_as_scikit_learns(digits: Digits) -> None:
    x = torch.nn.functional.normalize(torch.from_numpy(digits[0]))
    inertia = clustering._run_restarts(x, 10, 20, generator()).inertia
    theirs = KMeans(10, n_init=20, random_state=0).fit(x.numpy()).inertia_
    assert float(inertia.min()) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("batch_bytes", [1 << 20, 1], ids=["one batch", "a batch per fit"])
def test_each_fit_is_its_restart_with_the_lowest_inertia(monkeypatch: pytest.MonkeyPatch, batch_bytes: int) -> None:
    y = np.array([0, 0, 1, 1])
    good, bad = torch.tensor([1, 1, 0, 0]), torch.tensor([0, 1, 0, 1])
    restarts = [(bad, 3.0), (good, 1.0), (bad, 2.0), (good, 9.0), (bad, 8.0), (bad, 7.0)]  # two per fit
    calls: list[dict[str, Any]] = []

    def fake(x: torch.Tensor, n_clusters: int, **options: Any) -> SimpleNamespace:
        calls.append({"n_clusters": n_clusters} | options)
        own, restarts[:] = restarts[: options["n_restarts"]], restarts[options["n_restarts"] :]
        return SimpleNamespace(
            labels=torch.stack([row[0] for row in own]), inertia=torch.tensor([row[1] for row in own])
        )

    monkeypatch.setattr(clustering, "run_kmeans", fake)
    monkeypatch.setattr(clustering, "BATCH_BYTES", batch_bytes)
    scores = cluster_scores(np.eye(4, dtype=np.float32), y, generator(), n_fits=3, n_init=2)
    assert scores["nmi"] == pytest.approx([1.0, 0.0, 0.0])
    assert [call["n_restarts"] for call in calls] == ([6] if batch_bytes > 1 else [2, 2, 2])
    for call in calls:
        protocol = (call["n_clusters"], call["init"], call["until_converged"], call["n_iters"])
        assert protocol == (2, "k-means++", True, 300)


def test_sparse_fits_follow_the_same_protocol(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    class Recorded(KMeans):
        def __init__(self, n_clusters: int, **options: Any) -> None:
            calls.append({"n_clusters": n_clusters} | options)
            super().__init__(n_clusters, **options)

    monkeypatch.setattr(clustering, "KMeans", Recorded)
    cluster_scores(sp.csr_array(digits[0]), digits[1], generator(), n_fits=3, n_init=2)
    assert len(calls) == len({call.pop("random_state") for call in calls}) == 3  # every fit has its own seed
    assert calls == [{"n_clusters": 10, "n_init": 2, "max_iter": 300, "tol": 0}] * 3


@both_layouts
def test_same_seed_same_scores_and_the_global_generators_are_not_used(digits: Digits, layout: type) -> None:
    x, y = layout(digits[0]), digits[1]
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (cluster_scores(x, y, generator(5), n_fits=2) for _ in range(2))
    assert first == again
    assert first["nmi"][0] != first["nmi"][1]  # two fits, not one twice
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == before_numpy).all()  # noqa: NPY002


def test_zero_rows_and_duplicates_are_accepted() -> None:
    scores = cluster_scores(np.zeros((9, 3), dtype=np.float32), np.arange(9) % 3, generator())
    assert np.isfinite(list(scores.values())).all()


def test_one_class_is_one_cluster() -> None:
    scores = cluster_scores(np.eye(4, dtype=np.float32), np.zeros(4, dtype=int), generator(), n_fits=1)
    assert scores == {"nmi": [1.0], "homogeneity": [1.0], "ari": [1.0]}  # as scikit-learn defines it
