import numpy as np
import pytest

from afgrl.analysis import projection
from afgrl.analysis.projection import project_run
from afgrl.errors import UserError
from afgrl.runs.folder import Run


def run_with(path, vectors):
    run = Run.create(path)
    run.save_embedding(np.arange(len(vectors)), np.asarray(vectors, dtype=np.float32))
    return run


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((1, 4)), np.eye(3), np.eye(4), np.ones((40, 4)), np.zeros((9, 3)), np.repeat(np.eye(4), 20, axis=0),
        np.random.default_rng(0).normal(size=(30, 1)),
    ],
    ids=["one node", "three", "four", "constant", "zero", "duplicates", "one column"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["tsne", "pca"])
def test_every_node_gets_its_own_finite_point(vectors, name, tmp_path):
    points = project_run(run_with(tmp_path / "run", vectors), name)
    assert points.shape == (len(vectors), 2)
    assert points.dtype == np.float32
    assert np.isfinite(points).all()
    assert len(np.unique(points, axis=0)) == len(points)


def grouped_vectors(n, seed=0):
    draw = np.random.default_rng(seed)
    group = draw.integers(0, 5, n)
    unit = np.eye(5, 20)[group] + 0.2 * draw.normal(size=(n, 20))
    return (unit / np.linalg.norm(unit, axis=1, keepdims=True)).astype(np.float32), group


@pytest.mark.parametrize("landmarks", [5_000, 150], ids=["all nodes", "landmarks"])
def test_nodes_of_a_group_are_next_to_each_other(landmarks, monkeypatch):
    monkeypatch.setattr(projection, "LANDMARKS", landmarks)
    unit, group = grouped_vectors(600)
    points = projection.tsne(unit)
    distance = np.linalg.norm(points[:, None] - points, axis=2) + 1e9 * np.eye(len(points))
    assert (group[distance.argmin(1)] == group).mean() > 0.97


def test_a_node_between_two_groups_goes_to_the_group_with_most_of_its_landmarks():
    positions = np.array([[[0, 0], [0.1, 0], [0, 0.1], [10, 10], [10, 10.1]]])
    median = projection._weighted_median(positions, np.full((1, 5), 0.2))
    assert np.linalg.norm(median) < 1


def test_a_stored_projection_is_used_again_if_it_has_a_point_for_each_node(tmp_path):
    run = run_with(tmp_path / "run", np.eye(8))
    points = np.random.default_rng(3).normal(size=(8, 2)).astype(np.float32)
    run.save_projection("mine", points)
    assert np.array_equal(project_run(run, "mine"), points)
    run.save_projection("mine", points[:7])
    with pytest.raises(UserError, match="'mine'; possible values: pca, tsne"):
        project_run(run, "mine")


def test_a_computed_projection_is_stored(tmp_path):
    run = run_with(tmp_path / "run", np.eye(8))
    assert np.array_equal(project_run(run, "pca"), run.projection("pca"))


def test_vectors_that_are_not_finite_are_rejected(tmp_path):
    with pytest.raises(UserError, match="not finite"):
        project_run(run_with(tmp_path / "run", np.full((3, 2), np.nan)), "tsne")


def test_the_projection_is_rotated_to_be_wide_and_keeps_distances():
    tall = np.random.default_rng(0).normal(size=(50, 2)) * [1, 10]
    points = projection._rotate_to_landscape(tall)
    assert np.ptp(points[:, 0]) > 3 * np.ptp(points[:, 1])
    before, after = (np.linalg.norm(part[:, None] - part, axis=2) for part in (tall, points))
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_pca_keeps_the_distances_between_directions_in_two_dimensions(tmp_path):
    draw, angles = np.random.default_rng(0), np.linspace(0, 3, 40)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    basis = np.linalg.qr(draw.normal(size=(6, 6)))[0][:2]
    vectors = circle @ basis * draw.uniform(0.1, 10, (40, 1))  # only directions matter
    points = project_run(run_with(tmp_path / "run", vectors), "pca")
    before, after = (np.linalg.norm(part[:, None] - part, axis=2) for part in (circle, points))
    np.testing.assert_allclose(after, before, atol=1e-5)  # float32


def test_equal_points_are_separated_and_others_stay():
    points = np.array([[0, 0], [4, 4], [0, 0], [8, 0]], dtype=np.float32)
    separated = projection._separate_duplicates(points.copy())
    assert np.array_equal(separated[[0, 1, 3]], points[[0, 1, 3]])
    assert 0 < np.linalg.norm(separated[2]) < 0.5  # of an extent of 8


@pytest.mark.parametrize("equal", [False, True])
def test_rows_are_placed_in_blocks(equal, monkeypatch):
    """No copy of all vectors is made: ten million of them take 5 GB."""
    monkeypatch.setattr(projection, "LANDMARKS", 100)
    vectors = 3 * (np.ones((300, 4), dtype=np.float32) if equal else grouped_vectors(300)[0])
    whole = projection.project_vectors(vectors, "tsne")
    monkeypatch.setattr(projection, "BLOCK_ROWS", 70)
    scaled, scale = [], projection.unit_rows
    monkeypatch.setattr(projection, "unit_rows", lambda rows: scaled.append(len(rows)) or scale(rows))
    np.testing.assert_allclose(projection.project_vectors(vectors, "tsne"), whole, atol=1e-4)  # sums in another order
    assert max(scaled) <= 100
    with pytest.raises(UserError, match="not finite"):
        projection.project_vectors(np.vstack([vectors, np.full((1, vectors.shape[1]), np.inf)]), "pca")


def test_landmarks_keep_their_positions_and_weights_decrease(monkeypatch):
    monkeypatch.setattr(projection, "LANDMARKS", 100)
    unit, _ = grouped_vectors(300)
    chosen = np.sort(np.random.default_rng(0).permutation(300)[:100])
    rows = projection.unit_rows(unit[chosen])
    assert np.array_equal(projection.tsne(unit)[chosen], projection._scikit_learn_tsne(rows))
    weight = projection._landmark_weights(np.array([[0.9, 0.8, 0.7], [0.5, 0.5, 0.5]]))
    np.testing.assert_allclose(weight[0] / weight[0, 0], np.exp([0, -1, -2]))
    np.testing.assert_allclose(weight[1], 1 / 3)


def test_a_projection_is_announced_and_computed_once(tmp_path):
    run, sentences = run_with(tmp_path / "run", np.eye(8)), []
    first = project_run(run, "tsne", sentences.append)
    assert np.array_equal(project_run(run, "tsne", sentences.append), first)
    assert sentences == ["Computing the 2-D projection of 8 nodes with tsne."]
