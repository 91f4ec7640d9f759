"""K-means on a CPU, against the reference and scikit-learn."""

import pytest
import torch
from sklearn.cluster import KMeans
from torch.nn import functional as F

from afgrl.ops.kmeans import cpu
from afgrl.ops.kmeans.cpu import lloyd_cpu
from afgrl.ops.kmeans.reference import lloyd_reference
from tests.ops.test_kmeans import blobs


def start(x, k, m, rng):
    return x[torch.rand(m, len(x), generator=rng).topk(k, dim=1).indices]


def check(x, centers, n_iters, agreement=1.0):
    """Compares with the reference; if scores are equal within rounding, the two may differ a little."""
    plain = lloyd_reference(x, centers, n_iters)
    found = lloyd_cpu(x, centers, n_iters)
    assert found.labels.shape == plain.labels.shape
    assert found.labels.dtype == plain.labels.dtype
    assert (found.labels == plain.labels).float().mean() >= agreement
    scale = x.square().sum().item()
    # Inertia is a difference of sums as large as scale; 1e-3 of itself is what a few ties may change.
    assert torch.allclose(found.inertia, plain.inertia, rtol=1e-3, atol=1e-5 * scale)
    # The labels must be those of the nearest centers, and the inertia must belong to them.
    squares = (x.double()[None, :, None] - found.centers.double()[:, None]).square().sum(-1)  # [m, n, k]
    own = squares.gather(-1, found.labels.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(own, squares.amin(-1), rtol=1e-4, atol=1e-5 * (1 + scale / len(x)))
    assert torch.allclose(own.sum(1), found.inertia.double(), rtol=1e-4, atol=1e-5 * scale)
    return plain, found


def test_by_hand():
    x = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    found = lloyd_cpu(x, torch.tensor([[[0.0], [11.0]]]), 20)
    assert found.labels.tolist() == [[0, 0, 1, 1]]
    assert found.centers.tolist() == [[[0.5], [10.5]]]
    assert found.inertia.item() == pytest.approx(1.0)


@pytest.mark.parametrize("n_iters", [0, 1, 2, 3, 5, 20])
def test_equals_the_reference_after_any_number_of_iterations(rng, n_iters):
    x = blobs(rng, n=600, k=15, d=6)
    plain, found = check(x, start(x, 15, 4, rng), n_iters)
    assert torch.allclose(found.centers, plain.centers, atol=1e-5)


@pytest.mark.parametrize(("n", "d", "k"), [(1, 3, 1), (2, 1, 2), (65, 4, 1), (65, 4, 65), (300, 1, 7), (501, 33, 20)])
@pytest.mark.parametrize("m", [1, 3])
def test_equals_the_reference_at_awkward_sizes(rng, n, d, k, m):
    x = torch.randn(n, d, generator=rng)
    check(x, start(x, k, m, rng), 20)


def test_equals_the_reference_on_unit_rows_in_many_dimensions(rng):
    x = F.normalize(torch.randn(2000, 20, generator=rng) @ torch.randn(20, 256, generator=rng))
    check(x, start(x, 50, 3, rng), 20, agreement=0.999)  # rows are between many centers: ties occur


def test_equals_scikit_learn(rng):
    x = blobs(rng)
    theirs = KMeans(5, init=x[:5].numpy(), n_init=1, tol=0, max_iter=300).fit(x.numpy())
    assert lloyd_cpu(x, x[:5][None], 300).labels[0].tolist() == theirs.labels_.tolist()


def test_rows_in_blocks(rng, monkeypatch):
    monkeypatch.setattr(cpu, "BLOCK_BYTES", 4 * 45 * 7)  # blocks of seven rows or more
    x = blobs(rng, n=600, k=15, d=6)
    check(x, start(x, 15, 3, rng), 20)


def test_rows_far_from_the_origin(rng):
    x = 100 * blobs(rng, n=400, k=8) + 1000
    check(x, start(x, 8, 3, rng), 20, agreement=0.99)


def test_duplicate_rows_and_centers(rng):
    x = torch.randn(10, 3, generator=rng).repeat(20, 1)
    centers = start(x, 12, 3, rng)
    centers[0] = centers[0, :1]  # all twelve the same
    check(x, centers, 20, agreement=0)  # rounding decides between equal centers


def test_an_empty_cluster_keeps_its_center(rng):
    x = blobs(rng, n=100, k=3, d=2)
    centers = torch.cat([x[:3], torch.full((1, 2), 1e3)])[None]
    plain, found = check(x, centers, 20)
    assert found.centers[0, 3].tolist() == [1e3, 1e3]
    assert torch.allclose(found.centers, plain.centers, atol=1e-5)


def test_a_cluster_that_becomes_empty_keeps_its_last_center():
    x = torch.tensor([[0.0], [1.0], [2.0], [9.0], [10.0]])
    for first in ([[0.0], [1.4], [1.6]], [[1.0], [2.2], [5.0]], [[-9.0], [4.0], [4.1]]):
        check(x, torch.tensor([first]), 20)


def test_converged_centers_stay(rng):
    x = blobs(rng, n=600, k=15, d=6)
    converged = lloyd_cpu(x, start(x, 15, 4, rng), 300)
    again = lloyd_cpu(x, converged.centers, 20)
    assert torch.equal(again.labels, converged.labels)
    assert torch.allclose(again.centers, converged.centers, atol=1e-5)


def test_a_warm_start_after_rows_moved_a_little(rng):
    x = F.normalize(blobs(rng, n=1500, k=20, d=32))
    centers = lloyd_cpu(x, start(x, 30, 3, rng), 20).centers
    check(F.normalize(x + 0.01 * torch.randn(x.shape, generator=rng)), centers, 20)


def test_few_rows_are_compared_with_centers_that_did_not_move(rng, monkeypatch):
    """The purpose of this version: after a warm start the products are small."""
    x = F.normalize(blobs(rng, n=1500, k=30, d=32))
    centers = lloyd_cpu(x, start(x, 30, 3, rng), 50).centers
    compared, compare = [], cpu._compare
    monkeypatch.setattr(cpu, "_compare", lambda x, c, counts: compared.append(len(x) * len(c)) or compare(x, c, counts))
    lloyd_cpu(F.normalize(x + 0.003 * torch.randn(x.shape, generator=rng)), centers, 20)
    assert sum(compared) < 21 * 1500 * 90 / 3


def test_same_bits_in_every_call_and_arguments_are_not_changed(rng):
    x = F.normalize(torch.randn(3000, 64, generator=rng))
    centers = start(x, 20, 3, rng)
    kept = x.clone(), centers.clone()
    first, second = lloyd_cpu(x, centers, 20), lloyd_cpu(x, centers, 20)
    for part in ("labels", "centers", "score", "square"):
        assert torch.equal(getattr(first, part), getattr(second, part))
    assert torch.equal(x, kept[0])
    assert torch.equal(centers, kept[1])
