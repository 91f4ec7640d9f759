"""Of many labeled nodes a sample is scored; a sample of all nodes scores as all nodes do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.data.splits import TEST, TRAIN, VALIDATION, random_splits
from afgrl.evaluate import cluster_scores, draw_sample, evaluate_last_epoch, sample, scores_to_json, similarity_scores
from afgrl.evaluate.matrix import check_inputs, is_sparse
from afgrl.evaluate.sample import Sample

both_layouts = pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def groups(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Rows with few non-zeros, so that CSR rows stay sparse, and their classes."""
    rng, y = np.random.default_rng(0), np.arange(n) % 3
    noise = np.where(rng.random((n, 24)) < 0.1, rng.random((n, 24)), 0)
    return (noise + np.eye(24)[y]).astype(np.float32), y


def test_of_many_labeled_nodes_a_sample_is_drawn(monkeypatch):
    for name, size in (("MOST_EVALUATED", 50), ("N_CLASSIFIED", 20), ("N_CLUSTERED", 30), ("N_QUERIES", 10)):
        monkeypatch.setattr(sample, name, size)
    assert draw_sample(random_splits(50)) is None
    splits = random_splits(60)
    drawn, again = draw_sample(splits), draw_sample(splits)
    for part, size in (("classified", 20), ("clustered", 30), ("queries", 10)):
        rows, same = getattr(drawn, part), getattr(again, part)
        assert len(rows) == size
        assert (np.diff(rows) > 0).all()
        assert (rows == same).all()
    assert (drawn.splits.roles == splits.roles[:5, drawn.classified]).all()
    assert drawn.splits.name.endswith(", the first 5; 20 of 60 labeled nodes")
    assert str(drawn).startswith("Of 60 labeled nodes, 20 random ones are classified in 5 splits")


def test_a_sample_does_not_depend_on_the_random_splits(monkeypatch):
    """Both are drawn from seed 0: a sample of the same permutation had only training nodes of the first split."""
    monkeypatch.setattr(sample, "MOST_EVALUATED", 5_000)
    monkeypatch.setattr(sample, "N_CLASSIFIED", 1_000)
    own = draw_sample(random_splits(10_000)).splits
    shares = [(own.roles == role).mean(1) for role in (TRAIN, VALIDATION, TEST)]
    for share, expected in zip(shares, (0.1, 0.1, 0.8), strict=True):
        assert np.abs(share - expected).max() < 0.05  # five standard deviations of 1,000 draws


@both_layouts
def test_a_sample_of_all_nodes_scores_as_all_nodes_do(layout):
    x, y = groups()
    splits, every = random_splits(len(y), count=3), np.arange(len(y))
    whole = Sample(len(y), every, every, every, splits, n_fits=3)
    vectors = torch.from_numpy(x) if layout is np.asarray else csr_from_scipy(sp.csr_array(x))
    assert is_sparse(check_inputs(vectors, y)[0]) == (layout is not np.asarray)
    options = {"n_fits": 3, "readout": torch.from_numpy(x)}
    expected = scores_to_json(evaluate_last_epoch(vectors, y, splits, **options))
    assert scores_to_json(evaluate_last_epoch(vectors, y, splits, **options, sample=whole)) == expected
    assert expected["clustering-readout"]["nmi"]["mean"] > 0.9  # easy enough that all good fits are equal


def test_classifiers_of_a_sample_end_at_its_tolerance():
    x, y = groups()
    splits, every = random_splits(len(y), count=3), np.arange(len(y))
    accuracy = {}
    for tolerance in (sample.TOLERANCE, 1e9):  # the second ends at weights of zero
        own = Sample(len(y), every, every, every, splits, n_fits=1, tolerance=tolerance)
        scored = evaluate_last_epoch(torch.from_numpy(x), y, splits, n_fits=1, sample=own)
        accuracy[tolerance] = scores_to_json(scored)["classification"]["accuracy"]["mean"]
    assert accuracy[1e9] < 50 < 90 < accuracy[sample.TOLERANCE]


def test_each_fit_on_a_sample_has_its_own_centers():
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    y, seed = np.arange(200) % 3, torch.Generator().manual_seed
    expected = cluster_scores(x, y, seed(0), n_fits=4)
    assert len(set(expected["nmi"])) > 1
    assert cluster_scores(x, y, seed(0), n_fits=4, fitted=np.arange(200)) == expected


@both_layouts
def test_centers_come_from_the_sample_and_all_rows_are_clustered(layout):
    """The rows outside the sample are near other classes' rows, so they are clustered and change the score."""
    x, y = groups()
    fitted, changed = np.arange(60), y.copy()
    changed[60:] = 1 - y[60:] % 2
    seed = torch.Generator().manual_seed
    own = cluster_scores(layout(x[:60]), y[:60], seed(0), n_fits=1)["nmi"][0]
    scores = [cluster_scores(layout(x), each, seed(0), n_fits=1, fitted=fitted)["nmi"][0] for each in (y, changed)]
    assert own == pytest.approx(scores[0], abs=0.1)  # the same clusters, of twice as many rows
    assert scores[1] < scores[0] - 0.2


@both_layouts
def test_queries_are_compared_with_all_rows(layout):
    x, y = groups()
    x[50:90], y[50:90] = x[50], 0  # equal rows: each has some of the others, but not itself
    queries = np.array([3, *range(50, 90), 119])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    nearest = np.argsort(-cosine, axis=1)[queries, :5]
    expected = float((y[nearest] == y[queries, None]).mean())
    assert similarity_scores(layout(x), y, ks=(5,), queries=queries)["sim@5"] == pytest.approx(expected)
    classes = np.arange(len(y))  # no node has the class of another
    assert similarity_scores(layout(x), classes, queries=queries) == {"sim@5": 0.0, "sim@10": 0.0}
