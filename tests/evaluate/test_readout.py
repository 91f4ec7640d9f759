"""The clustering readout is what its equations say, and removes noise that differs between neighbors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score

from afgrl.csr import csr_from_scipy, csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate import cluster_scores, clustering_readout, readout, smoothed_directions, smoothed_features
from afgrl.evaluate.readout import neighbor_information
from afgrl.graph import Graph
from afgrl.ops import storage
from afgrl.ops.propagation.adjacency import gcn_norm


def random_case(n: int = 60, width: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors of different lengths, features, and S of a random graph with isolated nodes."""
    draw = np.random.default_rng(seed)
    z = draw.normal(size=(n, width)) * draw.uniform(0.1, 10, (n, 1)) * np.geomspace(1, 0.05, width)
    graph = Graph(np.ones((n, 1), dtype=np.float32), draw.integers(n - 4, size=(2, 2 * n)))
    x = draw.normal(size=(n, 7)).astype(np.float32)
    x[np.arange(7 * n).reshape(n, 7) % 6 != 0] = 0  # sparse, with a value in each row
    return torch.from_numpy(z.astype(np.float32)), torch.from_numpy(x), gcn_norm(graph)


def brute_force(z: torch.Tensor, x: torch.Tensor, adjacency: torch.Tensor) -> np.ndarray:
    """All directions in float64, by a complete singular value decomposition."""
    s, parts = adjacency.to_dense().double().numpy(), []
    for table, weight in ((z, 1.0), (x, 0.7)):
        vectors = table.double().numpy()
        vectors = h = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for _ in range(20):
            h = 0.95 * s @ h + 0.05 * vectors
        parts += [weight * part / np.linalg.norm(part, axis=1, keepdims=True) for part in (vectors, h)]
    table = np.hstack(parts)
    u, values, _ = np.linalg.svd(table, full_matrices=False)
    return u * values


def test_directions_equal_a_singular_value_decomposition_in_float64() -> None:
    z, x, adjacency = random_case()
    found, expected = smoothed_directions(z, x, adjacency).numpy(), brute_force(z, x, adjacency)
    assert found.shape == (60, 62)
    for columns in (1, 5, 62):  # inner products do not depend on signs; float32 rounds by about 1e-6 of the largest
        a, b = found[:, :columns], expected[:, :columns]
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0)[:20], np.linalg.norm(expected, axis=0)[:20], rtol=1e-4)


@pytest.mark.parametrize("in_files", [False, True])
def test_blocks_of_rows_do_not_change_the_readout(in_files, tmp_path, monkeypatch):
    """The sums of blocks are rounded differently, by about 1e-6 of the largest inner product."""
    z, x, adjacency = random_case(width=40)
    whole = smoothed_directions(z, x, adjacency)
    chosen = clustering_readout(whole, adjacency, 3)
    information = neighbor_information(torch.arange(60) % 3, adjacency)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 7)
    monkeypatch.setattr(storage, "SMALLEST", 1)
    with storage.tables_in_files(tmp_path if in_files else None):
        found = smoothed_directions(z, x, adjacency)
        assert neighbor_information(torch.arange(60) % 3, adjacency) == information
        readout_found = clustering_readout(found, adjacency, 3)
    for blocks, expected in ((found, whole), (readout_found, chosen)):
        torch.testing.assert_close(blocks @ blocks.T, expected @ expected.T, atol=1e-4, rtol=0)


def test_a_table_in_blocks_is_projected_on_its_leading_directions(monkeypatch):
    z, _, adjacency = random_case(width=40)
    monkeypatch.setattr(readout, "MAX_WIDTH", 12)
    none = torch.ones(60, 1)  # features without a part
    whole = smoothed_directions(z, none, adjacency)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 7)
    found = smoothed_directions(z, none, adjacency)
    assert found.shape == whole.shape == (60, 24)
    # The whole table is projected by subspace iteration, which is exact to about 1e-3 for the last directions.
    torch.testing.assert_close(found @ found.T, whole @ whole.T, atol=2e-2, rtol=0)


def test_the_part_of_the_features_is_shared():
    z, x, adjacency = random_case()
    shared = smoothed_features(x, adjacency)
    assert len(shared.parts) == 2
    for vectors in (z, -z[:, :9]):
        assert torch.equal(smoothed_directions(vectors, shared, adjacency), smoothed_directions(vectors, x, adjacency))
    assert smoothed_features(torch.ones(60, 1), adjacency).parts == []


def test_there_are_at_most_256_directions() -> None:
    z, x, adjacency = random_case(n=300, width=200)
    assert smoothed_directions(z, x, adjacency).shape == (300, 256)


def test_wide_and_sparse_vectors_are_projected_first(monkeypatch: pytest.MonkeyPatch) -> None:
    z, x, adjacency = random_case()
    z = torch.where(z.abs() < 0.3, 0.0, z)
    expected = smoothed_directions(z, x, adjacency)
    monkeypatch.setattr(readout, "MAX_WIDTH", 23)  # of 24: the direction that is lost is the shortest
    sparse = csr_from_scipy(csr_to_scipy(z.to_sparse_csr()))
    for vectors in (z, sparse):
        found = smoothed_directions(vectors, x, adjacency)
        assert found.shape == (60, 60)
        assert (found @ found.T).numpy() == pytest.approx((expected @ expected.T).numpy(), abs=0.02)


def test_neighbor_information_is_the_normalized_mutual_information_over_edges() -> None:
    draw = np.random.default_rng(0)
    source, target = draw.integers(50, size=(2, 200))
    graph = Graph(np.ones((50, 1), dtype=np.float32), np.stack([source, target]))
    adjacency, labels = gcn_norm(graph), torch.from_numpy(draw.integers(4, size=50))
    source, target = graph.edge_index.numpy()[:, graph.edge_index[0] != graph.edge_index[1]]
    expected = normalized_mutual_info_score(labels.numpy()[source], labels.numpy()[target])
    assert neighbor_information(labels, adjacency) == pytest.approx(expected, abs=1e-9)


def test_neighbor_information_is_0_for_one_cluster_and_1_for_separate_parts() -> None:
    pairs = np.arange(10).reshape(2, 5)
    adjacency = gcn_norm(Graph(np.ones((10, 1), dtype=np.float32), pairs))
    assert neighbor_information(torch.zeros(10, dtype=torch.int64), adjacency) == 0
    assert neighbor_information(torch.arange(10) % 5, adjacency) == pytest.approx(1)
    no_edges = gcn_norm(Graph(np.ones((10, 1), dtype=np.float32), pairs[:, :0]))
    assert neighbor_information(torch.arange(10) % 5, no_edges) == 0


@pytest.mark.parametrize(
    ("of_own_scales", "of_evened_scales", "takes_own"),
    [(0.6, 0.5, True), (0.5, 0.6, False), (0.6, 0.592, True), (0.6, 0.595, False)],
)
def test_the_scaling_with_more_information_about_neighbors_is_taken(
    of_own_scales: float, of_evened_scales: float, takes_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, x, adjacency = random_case(n=300, width=60)
    directions = smoothed_directions(z, x, adjacency)
    informations = iter([of_own_scales, of_evened_scales])
    monkeypatch.setattr(readout, "neighbor_information", lambda labels, adjacency: next(informations))
    found = clustering_readout(directions, adjacency, 5)
    if takes_own:
        assert torch.equal(found, directions[:, :10])
    else:
        lengths = torch.linalg.vector_norm(directions, dim=0)[:20]
        assert found.shape == (300, 20)
        assert torch.linalg.vector_norm(found, dim=0).numpy() == pytest.approx(lengths.sqrt().numpy(), rel=1e-5)
        assert torch.nn.functional.cosine_similarity(found, directions[:, :20], dim=0).min() > 0.9999


@pytest.mark.parametrize(("informations", "columns"), [((1.0, 0.0), 8), ((0.0, 1.0), 16)])
def test_few_clusters_have_8_or_16_directions(
    informations: tuple[float, float], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, x, adjacency = random_case()
    found = iter(informations)
    monkeypatch.setattr(readout, "neighbor_information", lambda labels, adjacency: next(found))
    assert clustering_readout(smoothed_directions(z, x, adjacency), adjacency, 3).shape == (60, columns)


def test_many_nodes_have_fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    z, x, adjacency = random_case(n=200, width=100)
    assert smoothed_directions(z, x, adjacency).shape == (200, 200 + 14)
    monkeypatch.setattr(readout, "MAX_BYTES", 200 * 16 * 40)
    assert smoothed_directions(z, x, adjacency).shape == (200, 80 + 14)
    monkeypatch.setattr(readout, "MAX_BYTES", 0)
    assert smoothed_directions(z, x, adjacency).shape == (200, 64 + 14)


def test_it_finds_groups_that_noise_hides_from_the_vectors() -> None:
    draw = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    linked = draw.random((240, 240)) < np.where(y[:, None] == y, 0.1, 0.002)
    graph = Graph(np.ones((240, 1), dtype=np.float32), np.stack(np.triu(linked, 1).nonzero()))
    z = np.eye(4, 100)[y] + 0.4 * draw.normal(size=(240, 100))
    vectors, adjacency = torch.from_numpy(z.astype(np.float32)), gcn_norm(graph)
    nmi = [
        np.mean(cluster_scores(x, y, torch.Generator().manual_seed(0), n_fits=3, n_init=10)["nmi"])
        for x in (vectors, clustering_readout(smoothed_directions(vectors, graph.x, adjacency), adjacency, 4))
    ]
    assert nmi[0] < 0.5
    assert nmi[1] > 0.9


def test_the_same_vectors_give_the_same_bits() -> None:
    z, x, adjacency = random_case(n=150, width=100)
    found = [clustering_readout(smoothed_directions(z, x, adjacency), adjacency, 4) for _ in range(2)]
    assert torch.equal(*found)


def test_zero_vectors_are_accepted() -> None:
    z, x, adjacency = random_case()
    directions = smoothed_directions(torch.zeros_like(z), x, adjacency)
    assert torch.isfinite(clustering_readout(directions, adjacency, 3)).all()


def test_invalid_vectors_are_rejected() -> None:
    z, x, adjacency = random_case()
    with pytest.raises(UserError, match=r"their shapes are \(59, 24\), \(59, 7\), \(60, 60\)"):
        smoothed_directions(z[1:], x[1:], adjacency)
    z[3, 3] = torch.nan
    with pytest.raises(UserError, match="NaN or infinite"):
        smoothed_directions(z, x, adjacency)


def test_dense_features_have_no_part() -> None:
    z, x, adjacency = random_case()
    dense = x.clone()
    dense[x == 0] = 0.5
    alone = smoothed_directions(z, torch.ones(60, 1), adjacency)
    assert torch.equal(smoothed_directions(z, dense, adjacency), alone)
    assert smoothed_directions(z, dense.to_sparse_csr(), adjacency).equal(alone)
    assert smoothed_directions(z, x, adjacency).shape[1] == alone.shape[1] + 14
