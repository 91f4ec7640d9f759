"""Statistics of the embedding during training: by hand, and what they do not depend on."""

from types import SimpleNamespace

import pytest
import torch

from afgrl.train.monitor import EmbeddingMonitor


class Vectors:
    """A method whose vectors are given."""

    device = torch.device("cpu")

    def __init__(self, vectors):
        self.vectors = torch.tensor(vectors)

    def sample(self, inputs, rows):
        return self.vectors[rows]


def monitor(vectors, last=5):
    method = Vectors(vectors)
    return EmbeddingMonitor(SimpleNamespace(method=method, last=last), None, len(vectors)), method


def test_by_hand():
    own, method = monitor([[1.0, 0.0], [0.0, 1.0]] * 2)
    # The mean unit vector is (.5, .5); the covariance has one direction.
    assert own.statistics() == {"spread": pytest.approx(0.5), "rank": pytest.approx(1.0), "drift": pytest.approx(0.0)}
    method.vectors = -method.vectors
    assert own.statistics()["drift"] == pytest.approx(2.0)


def test_the_rank_does_not_depend_on_the_spread():
    assert monitor([[1.0, 0.0], [1.0, 0.01]])[0].statistics()["rank"] == pytest.approx(1.0)


def test_equal_vectors_have_no_spread():
    assert monitor([[3.0, 4.0]] * 5)[0].statistics()["spread"] == pytest.approx(0.0, abs=1e-6)


def test_lengths_do_not_count():
    first, second = (monitor(vectors)[0] for vectors in ([[1.0, 2.0], [3.0, 1.0]], [[10.0, 20.0], [0.3, 0.1]]))
    assert first.statistics() == pytest.approx(second.statistics(), abs=1e-5)
    own, method = monitor([[1.0, 2.0], [3.0, 1.0]])
    method.vectors = 7 * method.vectors
    assert own.statistics()["drift"] == pytest.approx(0.0, abs=1e-6)


def test_without_training_nothing_is_embedded_before_it():
    assert monitor([[1.0, 0.0]], last=0)[0].initial.numel() == 0
