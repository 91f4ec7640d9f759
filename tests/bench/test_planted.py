"""Planted graphs: the same bits whatever the number of threads, classes in features and edges, readable as a source."""

import numpy as np
import pytest

from afgrl.bench import planted
from afgrl.bench.planted import Planted, planted_graph, write_planted
from afgrl.data import load
from afgrl.errors import UserError

GRAPH = Planted(nodes=3_000, edges=20_000, features=16, classes=5, within_class=0.6, separation=1.0)


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "BLOCK_NODES", 700)  # several blocks, the last one shorter
    monkeypatch.setattr(planted, "BLOCK_EDGES", 1_500)

    def written(name, graph=GRAPH, n_threads=1):
        write_planted(graph, tmp_path / name, n_threads)
        return {part: np.load(tmp_path / name / f"{part}.npy") for part in ("features", "edges", "labels")}

    return written


def test_the_same_seed_gives_the_same_arrays_with_any_number_of_threads(arrays):
    one, four = arrays("one"), arrays("four", n_threads=4)
    other = arrays("other", Planted(3_000, 20_000, 16, 5, 0.6, 1.0, seed=1))
    for name, array in one.items():
        assert np.array_equal(array, four[name])
        assert not np.array_equal(array, other[name])


def test_classes_are_planted_in_edges_and_features(arrays):
    found = arrays("graph")
    y, (source, target) = found["labels"], found["edges"].T
    expected = 0.6 + 0.4 / 5  # of the others, one in five ends in the same class by chance
    assert abs((y[source] == y[target]).mean() - expected) < 0.015  # four standard deviations of 20,000 draws
    means = np.stack([found["features"][y == label].mean(0) for label in range(5)])
    assert 0.7 < means.std() < 1.3  # 80 draws of a normal distribution
    assert abs((found["features"] - means[y]).std() - 1) < 0.02
    assert np.bincount(target, minlength=3_000).max() > 10 * len(source) / 3_000  # hubs


def test_a_planted_graph_is_a_source(arrays, tmp_path):
    arrays("graph")
    dataset = load(tmp_path / "graph")
    assert dataset.graph.n == 3_000
    assert 19_000 < dataset.graph.n_edges <= 20_000
    assert dataset.n_classes == 5
    assert planted_graph(10_000_000) == Planted(10_000_000, 100_000_000)


def test_impossible_counts_are_refused():
    with pytest.raises(UserError, match="as many nodes as classes"):
        Planted(nodes=3, edges=1, classes=4)
