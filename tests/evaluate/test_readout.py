"""The clustering readout is what its equation says, and removes noise that differs between neighbors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from afgrl.errors import UserError
from afgrl.evaluate import cluster_scores, clustering_readout, readout
from afgrl.graph import Graph
from afgrl.ops.propagation.adjacency import gcn_norm


def random_case(n: int = 60, width: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of different lengths, and S of a random graph with isolated nodes."""
    draw = np.random.default_rng(seed)
    z = draw.normal(size=(n, width)) * draw.uniform(0.1, 10, (n, 1)) * np.geomspace(1, 0.05, width)
    graph = Graph(np.ones((n, 1), dtype=np.float32), draw.integers(n - 4, size=(2, 2 * n)))
    return torch.from_numpy(z.astype(np.float32)), gcn_norm(graph)


def brute_force(z: torch.Tensor, adjacency: torch.Tensor, n_directions: int) -> np.ndarray:
    """The same in float64, by a complete singular value decomposition."""
    vectors, s = z.double().numpy(), adjacency.to_dense().double().numpy()
    h = vectors
    for _ in range(10):
        h = 0.85 * s @ h + 0.15 * vectors
    table = np.hstack([part / np.linalg.norm(part, axis=1, keepdims=True) for part in (vectors, h)])
    u, values, _ = np.linalg.svd(table, full_matrices=False)
    return u[:, :n_directions] * values[:n_directions]


@pytest.mark.parametrize("n_directions", [1, 5])
def test_it_equals_a_singular_value_decomposition_in_float64(n_directions: int) -> None:
    z, adjacency = random_case()
    found = clustering_readout(z, adjacency, n_directions).numpy()
    expected = brute_force(z, adjacency, n_directions)
    assert found.shape == (60, n_directions)
    # Inner products do not depend on signs. Rounding of a float32 Gram matrix: about 1e-6 of its largest entry.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    # Directions are ordered by their singular values, which are their scales.
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), np.linalg.norm(expected, axis=0), rtol=1e-4)


def test_it_has_64_directions_or_all_of_fewer() -> None:
    z, adjacency = random_case(n=150, width=50)
    assert clustering_readout(z, adjacency).shape == (150, 64)
    few = clustering_readout(z[:, :8], adjacency)
    assert few.shape == (150, 16)
    assert torch.linalg.vector_norm(few, dim=1) == pytest.approx(2**0.5)  # a rotation of two unit rows loses nothing


def test_wide_vectors_need_no_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    z, adjacency = random_case()
    expected = clustering_readout(z, adjacency, 4)
    monkeypatch.setattr(readout, "MAX_GRAM_WIDTH", 47)
    monkeypatch.setattr(readout, "gram_matrix", None)
    found = clustering_readout(z, adjacency, 4)
    assert (found @ found.T).numpy() == pytest.approx((expected @ expected.T).numpy(), abs=1e-3)  # three iterations


def test_it_finds_groups_that_noise_hides_from_the_vectors() -> None:
    draw = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    linked = draw.random((240, 240)) < np.where(y[:, None] == y, 0.1, 0.002)
    graph = Graph(np.ones((240, 1), dtype=np.float32), np.stack(np.triu(linked, 1).nonzero()))
    z = np.eye(4, 100)[y] + 0.4 * draw.normal(size=(240, 100))
    vectors = torch.from_numpy(z.astype(np.float32))
    nmi = [
        np.mean(cluster_scores(x, y, torch.Generator().manual_seed(0), n_fits=3, n_init=10)["nmi"])
        for x in (vectors, clustering_readout(vectors, gcn_norm(graph)))
    ]
    assert nmi[0] < 0.5
    assert nmi[1] > 0.9


def test_the_same_vectors_give_the_same_bits() -> None:
    z, adjacency = random_case(n=150, width=100)
    assert torch.equal(clustering_readout(z, adjacency, 4), clustering_readout(z, adjacency, 4))


def test_zero_vectors_are_accepted() -> None:
    z, adjacency = random_case()
    assert torch.isfinite(clustering_readout(torch.zeros_like(z), adjacency)).all()


def test_invalid_vectors_are_rejected() -> None:
    z, adjacency = random_case()
    with pytest.raises(UserError, match=r"their shapes are \(59, 24\) and \(60, 60\)"):
        clustering_readout(z[1:], adjacency)
    z[3, 3] = torch.nan
    with pytest.raises(UserError, match="NaN or infinite"):
        clustering_readout(z, adjacency)
