"""K-means: by hand, against float64, scikit-learn and faiss, and its initial centers."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops import kmeans
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.kmeans.reference import BLOCK_BYTES, assign


def blobs(rng, n=300, k=5, d=8):
    centers = 4 * torch.randn(k, d, generator=rng)
    return centers[torch.arange(n) % k] + torch.randn(n, d, generator=rng)


def test_by_hand(rng):
    x = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    found = run_kmeans(x, 2, generator=rng, centers=torch.tensor([[[0.0], [11.0]]]))
    assert found.labels.tolist() == [[0, 0, 1, 1]]
    assert found.centers.tolist() == [[[0.5], [10.5]]]
    assert found.inertia.item() == pytest.approx(1.0)


def test_assignment_equals_float64(rng, monkeypatch):
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 4 * 3 * 5 * 7)  # blocks of seven rows
    x, centers = torch.randn(65, 4, generator=rng), torch.randn(3, 5, 4, generator=rng)
    labels, best = assign(x, centers)
    squares = (x.double()[None, :, None] - centers.double()[:, None]).square().sum(-1)  # [m, n, k]
    assert torch.equal(labels, squares.argmin(-1))
    distance = x.double().square().sum(1) - 2 * best.T.double()
    assert torch.allclose(distance, squares.amin(-1), atol=1e-5)


def test_from_the_same_start_equals_scikit_learn(rng):
    x = blobs(rng)
    start = x[:5]
    ours = run_kmeans(x, 5, n_iters=300, generator=rng, centers=start[None], until_converged=True)
    theirs = KMeans(5, init=start.numpy(), n_init=1, tol=0, max_iter=300).fit(x.numpy())
    assert np.array_equal(ours.labels[0], theirs.labels_)
    assert np.allclose(ours.centers[0], theirs.cluster_centers_, atol=1e-4)


def test_from_the_same_start_equals_faiss(rng):
    faiss = pytest.importorskip("faiss")  # the extra `test` installs it
    x = F.normalize(blobs(rng, n=2000, k=20))
    start = x[:20]
    ours = run_kmeans(x, 20, n_iters=20, generator=rng, centers=start[None])
    theirs = faiss.Kmeans(8, 20, niter=20, max_points_per_centroid=10_000)
    theirs.train(x.numpy(), init_centroids=start.numpy())
    assert np.allclose(ours.centers[0], theirs.centroids, atol=1e-4)


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_restarts_differ_and_the_best_is_as_good_as_scikit_learns(rng, init):
    x = blobs(rng)
    found = run_kmeans(x, 5, n_restarts=10, n_iters=100, generator=rng, init=init, until_converged=True)
    assert found.labels.shape == (10, 300)
    assert len({tuple(labels) for labels in found.labels.tolist()}) > 1
    best = KMeans(5, n_init=10, random_state=0).fit(x.numpy()).inertia_
    assert found.inertia.min().item() == pytest.approx(best, rel=1e-3)


def test_k_means_plus_plus_starts_in_every_group(rng):
    x = torch.arange(4.0).repeat_interleave(50).unsqueeze(1) * 100
    found = run_kmeans(x, 4, n_restarts=20, n_iters=1, generator=rng, init="k-means++")
    assert (found.inertia < 1e-3).all()  # a random start misses a group more often than not


def test_more_clusters_than_distinct_rows(rng):
    found = run_kmeans(torch.ones(6, 2), 4, n_restarts=2, generator=rng, init="k-means++")
    assert torch.isfinite(found.centers).all()


def test_an_empty_cluster_keeps_its_center(rng):
    centers = torch.tensor([[[0.0], [100.0]]])
    assert run_kmeans(torch.zeros(3, 1), 2, generator=rng, centers=centers).centers.tolist() == [[[0.0], [100.0]]]


def test_same_generator_state_same_clusters():
    x = blobs(torch.Generator().manual_seed(1))
    first, second = (run_kmeans(x, 5, n_restarts=3, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first.labels, second.labels)


@pytest.mark.parametrize("k", [0, 4])
def test_an_impossible_number_of_clusters_is_refused(k, rng):
    with pytest.raises(UserError, match=f"The number of clusters must be between 1 and 3, not {k}"):
        run_kmeans(torch.eye(3), k, generator=rng)


def test_centers_of_very_many_rows_come_from_a_sample(monkeypatch, rng):
    x = torch.eye(3, 6)[torch.arange(900) % 3] + 0.05 * torch.randn(900, 6, generator=rng)
    fitted, lengths = kmeans.run_kmeans, []

    def recorded(rows, *arguments, **options):
        lengths.append((len(rows), options["n_iters"]))
        return fitted(rows, *arguments, **options)

    monkeypatch.setattr(kmeans, "run_kmeans", recorded)
    labels = kmeans.sampled_kmeans(x, 3, torch.Generator().manual_seed(0), most_rows=60)
    assert lengths[1:] == [(60, 30), (900, 0)]
    assert all(len(labels[i::3].unique()) == 1 for i in range(3))
    assert len(labels.unique()) == 3
