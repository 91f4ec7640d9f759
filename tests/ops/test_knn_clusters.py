"""Nearest neighbors in the nearest clusters, against the exact search."""

import pytest
import torch
from torch.nn import functional as F

from afgrl import UserError
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn import clusters, nearest_neighbors, partition, visitors
from afgrl.ops.knn.clusters import in_leading_directions, nearest_in_clusters
from afgrl.ops.knn.partition import FINE_PROBES, fine_clusters, fine_partition
from afgrl.ops.knn.visitors import Clustering, compared_centers, nearest_centers


@pytest.fixture
def blobs():
    rng = torch.Generator().manual_seed(0)
    middle = torch.randn(12, 16, generator=rng)
    t = (middle.repeat(40, 1) + 0.4 * torch.randn(480, 16, generator=rng))[torch.randperm(480, generator=rng)]
    h = t + 0.05 * torch.randn(480, 16, generator=rng)
    found = run_kmeans(t, 12, unit=True, n_restarts=1, n_iters=20, rows=torch.arange(12)[None])
    return h, t, found.labels[0], found.centers[0]


@pytest.fixture
def fine(monkeypatch):
    """4,000 rows around 40 centers, and five clusters of them, which a fine partition divides into about 60."""
    monkeypatch.setattr(partition, "CPU_ROWS", 64)
    rng = torch.Generator().manual_seed(0)
    t = torch.randn(40, 16, generator=rng).repeat(100, 1) + 0.7 * torch.randn(4000, 16, generator=rng)
    found = run_kmeans(t, 5, unit=True, n_restarts=1, n_iters=20, rows=torch.arange(5)[None])
    return t + 0.05 * torch.randn(4000, 16, generator=rng), t, Clustering(found.labels[0], found.centers[0])


@pytest.mark.parametrize("diagonal", ["keep", "first", "drop"])
@pytest.mark.parametrize("k", [1, 4, 479])
def test_searching_all_clusters_is_the_exact_search(blobs, diagonal, k):
    h, t, labels, centers = blobs
    ours = nearest_in_clusters(h, t, k, labels, centers, diagonal=diagonal, probes=12)
    theirs = nearest_neighbors(h, t, k, diagonal=diagonal)
    assert torch.allclose(ours.similarity, theirs.similarity, atol=1e-6)
    row = torch.arange(len(h))[:, None]
    cosine = F.normalize(h) @ F.normalize(t).T
    assert torch.allclose(cosine[row, ours.index], ours.similarity, atol=1e-6)
    if diagonal == "first":
        assert torch.equal(ours.index[:, 0], row[:, 0])
    if diagonal == "drop":
        assert not (ours.index == row).any()


def test_few_clusters_contain_nearly_all_neighbors(blobs):
    h, t, labels, centers = blobs
    ours = nearest_in_clusters(
        h, t, 5, labels.int(), centers, diagonal="drop", probes=4
    ).index  # int32 as from a kernel
    theirs = nearest_neighbors(h, t, 5, diagonal="drop").index
    recall = (ours[:, :, None] == theirs[:, None, :]).any(2).float().mean()
    assert recall > 0.9  # .95 with these draws


@pytest.mark.parametrize("queries", [2, 5])
def test_queries_of_small_clusters_search_all_clusters(queries, monkeypatch):
    monkeypatch.setattr(clusters, "QUERIES", queries)
    h = torch.eye(5)
    labels = torch.tensor([2, 2, 2, 2, 0])  # cluster 0 has one node, cluster 1 none
    centers = torch.stack([h[4], -h[4], h[:4].mean(0)])
    found = nearest_in_clusters(h, h, 4, labels, centers, diagonal="drop", probes=1)
    assert found.index.sort(1).values.tolist() == [[j for j in range(5) if j != i] for i in range(5)]


def test_a_fine_partition_contains_nearly_all_neighbors(fine):
    h, t, coarse = fine
    labels, centers, probes = fine_partition(t, coarse)
    assert probes == FINE_PROBES
    assert len(centers) == pytest.approx(fine_clusters(4000, "cpu"), rel=0.1)
    assert torch.equal(labels, fine_partition(t, coarse).labels)
    own = (F.normalize(t) * F.normalize(centers)[labels]).sum(1)
    assert own.mean() > 0.8  # of unit vectors; .2 for random centers
    ours = nearest_in_clusters(h, t, 8, labels, centers, diagonal="drop", probes=probes).index
    theirs = nearest_neighbors(h, t, 8, diagonal="drop").index
    recall = (ours[:, :, None] == theirs[:, None, :]).any(2).float().mean()
    assert recall > 0.8


def test_a_fine_partition_divides_the_given_clusters_among_their_nearest_centers(fine):
    _, t, coarse = fine
    labels, centers, _ = fine_partition(t, coarse)
    assert all(len(coarse.labels[labels == number].unique()) <= 1 for number in range(len(centers)))
    of_center = torch.full((len(centers),), -1).scatter_(0, labels, coarse.labels)
    score = F.normalize(t) @ centers.T - centers.square().sum(1) / 2
    nearest = score.masked_fill(of_center != coarse.labels[:, None], -torch.inf).argmax(1)
    assert (nearest == labels).float().mean() > 0.999  # sums in another order


def test_a_fine_partition_has_no_large_clusters_even_if_most_rows_are_equal(monkeypatch):
    monkeypatch.setattr(partition, "CPU_ROWS", 50)
    rng = torch.Generator().manual_seed(0)
    t = torch.randn(2500, 8, generator=rng)
    t[::2] = t[0]
    coarse = Clustering(
        (torch.arange(2500) % 2).int(), torch.eye(8)[:3]
    )  # cluster 0 has the equal rows, cluster 2 none
    labels, centers, probes = fine_partition(t, coarse)
    sizes = torch.bincount(labels, minlength=len(centers))
    assert sizes.max() == 4 * 50
    assert sizes.sum() == 2500
    assert torch.equal(centers[labels[0]], centers[labels[-2]])  # both halves of the equal rows
    assert labels[0] != labels[-2]
    found = nearest_in_clusters(t, t, 5, labels, centers, diagonal="drop", probes=probes)
    assert torch.allclose(found.similarity[::2], torch.ones(1))
    assert (found.index[::2] % 2 == 0).all()


def test_fine_clusters_are_as_many_as_a_device_compares_quickly():
    assert [fine_clusters(n, "cpu") for n in (10**6, 10**7, 10**8)] == [977, 9766, 97_656]
    assert [fine_clusters(n, "cuda") for n in (10**6, 10**8)] == [1000, 10_000]


def test_a_query_is_compared_with_the_centers_near_that_of_its_own_cluster(fine, monkeypatch):
    h, t, coarse = fine
    labels, centers, _ = fine_partition(t, coarse)
    units = F.normalize(centers)
    exhaustive = nearest_centers(h, units, labels, 6)
    monkeypatch.setattr(visitors, "NEAR_CENTERS", 20)
    assert [compared_centers(len(units), device) for device in ("cpu", "cuda")] == [20, len(units)]
    found = nearest_centers(h, units, labels, 6)
    assert torch.equal(found[:, 0], labels)
    near = (units @ units.T).topk(20, dim=1).indices
    for query, own, chosen in zip(h[:200], labels, found, strict=False):
        others = near[own][near[own] != own]
        expected = others[(units[others] @ query).topk(5).indices]
        assert sorted(chosen[1:].tolist()) == sorted(expected.tolist())
    same = (found[:, :, None] == exhaustive[:, None, :]).any(2).float().mean()
    assert 0.6 < same < 1  # .80 with these draws


def test_the_own_cluster_is_searched_whatever_centers_are_equal_to_its_own(monkeypatch):
    monkeypatch.setattr(visitors, "NEAR_CENTERS", 3)
    labels = torch.arange(8)
    found = nearest_centers(torch.eye(2)[:1].expand(8, -1), torch.eye(2)[:1].expand(8, -1), labels, 2)
    assert torch.equal(found[:, 0], labels)
    assert (found[:, 1] != labels).all()


def test_queries_in_blocks_find_the_same(blobs, monkeypatch):
    h, t, labels, centers = blobs
    whole = nearest_in_clusters(h, t, 5, labels, centers, diagonal="first", probes=3)
    monkeypatch.setattr(clusters, "QUERIES", 100)
    blocks = nearest_in_clusters(h, t, 5, labels, centers, diagonal="first", probes=3)
    assert torch.equal(whole.index, blocks.index)
    assert torch.allclose(whole.similarity, blocks.similarity, atol=1e-6)  # sums in another order


def test_sizes_must_agree():
    with pytest.raises(UserError, match=r"must have one row per node, but their shapes are \(3, 3\), \(4, 4\), \(3,\)"):
        nearest_in_clusters(
            torch.eye(3), torch.eye(4), 1, torch.zeros(3, dtype=torch.int64), torch.eye(3), diagonal="keep"
        )
    with pytest.raises(UserError, match=r"their shapes are \(3, 3\), \(3, 3\), \(3, 1\)"):
        nearest_in_clusters(
            torch.eye(3), torch.eye(3), 1, torch.zeros(3, 1, dtype=torch.int64), torch.eye(3), diagonal="keep"
        )


def test_leading_directions_find_nearly_the_same_neighbors():
    rng = torch.Generator().manual_seed(0)
    t = torch.randn(600, 300, generator=rng) * 0.98 ** torch.arange(300)  # later columns matter less and less
    h = t + 0.02 * torch.randn(600, 300, generator=rng)
    centers = F.normalize(t[:3])
    narrow = in_leading_directions(h, t, centers)
    assert [part.shape for part in narrow] == [(600, 128), (600, 128), (3, 128)]
    # Orthonormal directions keep most of each product.
    assert torch.allclose(narrow[1] @ narrow[2].T, F.normalize(t) @ centers.T, atol=0.05)
    ours = nearest_neighbors(*narrow[:2], 5, diagonal="drop").index
    theirs = nearest_neighbors(h, t, 5, diagonal="drop").index
    assert (ours[:, :, None] == theirs[:, None, :]).any(2).float().mean() > 0.9


def test_narrow_vectors_are_searched_as_they_are(blobs):
    h, t, _, centers = blobs
    assert all(a is b for a, b in zip(in_leading_directions(h, t, centers), (h, t, centers), strict=True))
