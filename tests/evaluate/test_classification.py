"""The probes equal scikit-learn's logistic regression, and one torch layer per split trained by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from afgrl.csr import csr_from_scipy
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, Splits, random_splits
from afgrl.errors import UserError
from afgrl.evaluate import adam_probe, classification, logistic_probe
from afgrl.evaluate.classification import prediction_accuracies

Digits = tuple[np.ndarray, np.ndarray]
MakeSplits = Callable[[int, list[tuple[int, int]]], Splits]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scikit_learn_probe(x: np.ndarray, y: np.ndarray, roles: np.ndarray) -> float:
    x = normalize(x)
    fits = []
    for c in classification.STRENGTHS:
        model = LogisticRegression(C=c, tol=1e-6, max_iter=20000).fit(x[roles == TRAIN], y[roles == TRAIN])
        fits.append([model.score(x[roles == role], y[roles == role]) for role in (VALIDATION, TEST)])
    return 100 * max(fits, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("sizes", [(100, 250), (40, 250)])  # of 64 columns: more and fewer training rows
def test_accuracy_equals_scikit_learn(digits: Digits, sizes: tuple[int, int], splits_of_sizes: MakeSplits) -> None:
    x, y = digits
    splits = splits_of_sizes(600, [sizes] * 4)
    ours = logistic_probe(torch.from_numpy(x), y, splits)
    theirs = [scikit_learn_probe(x, y, roles) for roles in splits.roles]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=0.3)


@pytest.mark.parametrize("n_train", [40, 150])
def test_sparse_equals_dense(digits: Digits, n_train: int, splits_of_sizes: MakeSplits) -> None:
    x, y = digits
    splits = splits_of_sizes(600, [(n_train, 50)] * 2)
    sparse = logistic_probe(csr_from_scipy(sp.csr_array(x)), y, splits)
    assert sparse == pytest.approx(logistic_probe(torch.from_numpy(x), y, splits), abs=0.3)
    dense_result, sparse_result = (adam_probe(matrix, y, splits, generator()) for matrix in (x, sp.csr_array(x)))
    assert sparse_result == dense_result


@pytest.mark.parametrize("width", [64, 20])
def test_splits_of_different_sizes_score_as_if_alone(digits: Digits, width: int, splits_of_sizes: MakeSplits) -> None:
    x, y = digits[0][:, :width], digits[1]
    splits = splits_of_sizes(600, [(30, 40), (55, 20), (90, 100)])
    together = logistic_probe(x, y, splits)
    alone = [logistic_probe(x, y, Splits("one", row[None]))[0] for row in splits.roles]
    assert together == pytest.approx(alone, abs=0.5)  # float32 in other shapes: a node or two near the boundary


def test_chunks_of_splits_do_not_change_the_result(
    digits: Digits, monkeypatch: pytest.MonkeyPatch, splits_of_sizes: MakeSplits
) -> None:
    x, y = digits
    splits = splits_of_sizes(600, [(60, 40)] * 4)
    whole = logistic_probe(x, y, splits), adam_probe(x.astype(float), y, splits, generator())
    monkeypatch.setattr(classification, "CHUNK_BYTES", 1)
    chunked = logistic_probe(x, y, splits), adam_probe(x.astype(float), y, splits, generator())
    assert chunked[0] == pytest.approx(whole[0], abs=0.5)
    assert chunked[1] == whole[1]  # float64: rounding moves no node across the boundary


def test_two_directions_by_hand() -> None:
    x = torch.tensor([[1.0, 0], [0, 1]]).repeat(6, 1)
    y = np.array([0, 1] * 6)
    roles = np.array([[TRAIN, TRAIN, VALIDATION, VALIDATION] + [TEST] * 7 + [UNUSED]], dtype=np.uint8)
    assert logistic_probe(x, y, Splits("hand", roles)) == [100.0]
    y[4] = 1  # one of seven test nodes has the wrong label
    assert logistic_probe(x, y, Splits("hand", roles)) == [pytest.approx(100 * 6 / 7)]


@pytest.mark.parametrize("d", [2, 40])  # fewer and more columns than training rows
@pytest.mark.parametrize(
    ("flipped", "validation", "test"), [(UNUSED, 100, 100), (VALIDATION, 0, 100), (TEST, 100, 0), (TRAIN, 0, 0)]
)
def test_each_part_of_a_split_has_one_role(flipped: int, validation: float, test: float, d: int) -> None:
    """Ten nodes per part; wrong labels of one part change only the scores that may depend on it."""
    roles = np.repeat([UNUSED, TRAIN, VALIDATION, TEST], 10).astype(np.uint8)
    y = np.arange(40) % 2
    x = np.eye(2, d, dtype=np.float32)[y]
    splits = Splits("hand", roles[None])
    y = np.where(roles == flipped, 1 - y, y)
    assert logistic_probe(x, y, splits) == [test]
    assert adam_probe(20 * x, y, splits, generator()) == ([validation], [test])


def test_strength_is_the_best_on_validation_and_the_smallest_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 0 everywhere, and three fixed classifiers that predict it for the first ``1``s of each row below."""
    correct = {
        1.0: {VALIDATION: [1, 0, 0, 0], TEST: [1, 1, 1, 1]},  # the best on test is not chosen
        4.0: {VALIDATION: [1, 1, 0, 0], TEST: [1, 0, 0, 0]},
        16.0: {VALIDATION: [1, 1, 0, 0], TEST: [1, 1, 1, 0]},  # as good on validation, but less regularized
    }
    x = torch.eye(11)  # each node has its own coordinate, so that its prediction is a weight
    y = np.array([0, 1, *[0] * 9])
    roles = np.array([[TRAIN, TRAIN, *[VALIDATION] * 4, *[TEST] * 4, UNUSED]], dtype=np.uint8)

    def fixed(x, y, index, mask, strengths, tolerance):
        weight = torch.zeros(1, 3, 11, 2)
        for g, strength in enumerate(strengths.tolist()):
            for part, first in ((VALIDATION, 2), (TEST, 6)):
                values = torch.tensor(correct[strength][part], dtype=torch.float32)
                weight[0, g, first : first + 4, 0], weight[0, g, first : first + 4, 1] = values, 1 - values
        return weight, torch.zeros(1, 3, 2)

    monkeypatch.setattr(classification, "fit_logistic", fixed)
    assert logistic_probe(x, y, Splits("hand", roles), strengths=(16.0, 4.0, 1.0)) == [25.0]


def test_only_directions_matter_to_the_logistic_probe(digits: Digits, splits_of_sizes: MakeSplits) -> None:
    x, y = digits
    lengths = np.random.default_rng(0).uniform(0.1, 10, (600, 1))
    splits = splits_of_sizes(600, [(80, 80)])
    scaled = logistic_probe(x.astype(float) * lengths, y, splits)
    assert scaled == logistic_probe(x.astype(float), y, splits)


def test_adam_probe_equals_autograd_on_separate_layers(digits: Digits, splits_of_sizes: MakeSplits) -> None:
    x, y = torch.from_numpy(digits[0]).double(), torch.from_numpy(digits[1])
    splits = splits_of_sizes(600, [(60, 40), (45, 40), (60, 30)])
    validation, test = adam_probe(x, y, splits, generator(3))
    bound = math.sqrt(6 / (64 + 10))
    initial = torch.empty(3, 64, 10, dtype=torch.float64).uniform_(-bound, bound, generator=generator(3))
    for i, roles in enumerate(torch.from_numpy(splits.roles)):
        layer = train_layer(x[roles == TRAIN], y[roles == TRAIN], initial[i])
        correct = (layer(x).argmax(1) == y).double()
        assert validation[i] == pytest.approx(100 * float(correct[roles == VALIDATION].mean()))
        assert test[i] == pytest.approx(100 * float(correct[roles == TEST].mean()))
        rows = x[roles == TRAIN].unsqueeze(0)
        weight, bias = classification._train_with_adam(
            rows, y[roles == TRAIN].unsqueeze(0), torch.ones(rows.shape[:2], dtype=torch.bool), initial[i : i + 1]
        )
        torch.testing.assert_close(weight[0].T, layer.weight.detach(), rtol=0, atol=1e-7)  # Adam magnifies rounding
        torch.testing.assert_close(bias[0, 0], layer.bias.detach(), rtol=0, atol=1e-7)


def train_layer(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.nn.Linear:
    """The paper's probe: a linear layer, 100 steps of Adam with learning rate 0.01 and weight decay 1e-5."""
    layer = torch.nn.Linear(*weight.shape, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(weight.T)
        layer.bias.zero_()
    adam = torch.optim.Adam(layer.parameters(), lr=0.01, weight_decay=1e-5)
    for _ in range(100):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(layer(x), y).backward()
        adam.step()
    return layer


def test_probes_repeat_and_do_not_use_the_global_generator(digits: Digits) -> None:
    x, y = digits
    splits = random_splits(600, count=2)
    before = torch.get_rng_state()
    with torch.inference_mode():  # as a caller that evaluates a model
        first = adam_probe(x, y, splits, generator()), logistic_probe(x, y, splits)
    again = adam_probe(x, y, splits, generator()), logistic_probe(x, y, splits)
    assert first == again
    assert torch.equal(torch.get_rng_state(), before)


def test_zero_rows_and_a_class_without_training_nodes_are_accepted(splits_of_sizes: MakeSplits) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    x[::7] = 0
    roles = splits_of_sizes(60, [(20, 10)]).roles
    roles[0, (roles[0] == TRAIN) & (y == 2)] = UNUSED
    for matrix in (x, sp.csr_array(x)):
        assert math.isfinite(logistic_probe(matrix, y, Splits("hand", roles))[0])


def test_accuracy_of_predictions_by_hand() -> None:
    y = np.array([0, 1, 2, 0, 1])
    predicted = np.array([[0, 1, 0, 0, 0], [0, 1, 2, 1, 1]])  # one row per split
    roles = np.array([[TRAIN, VALIDATION, TEST, TEST, UNUSED], [TEST, TEST, TEST, TEST, TRAIN]], dtype=np.uint8)
    assert prediction_accuracies(predicted, y, Splits("hand", roles)) == [50.0, 75.0]


ROLES = random_splits(30, count=2).roles


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.full((30, 4), np.nan, dtype=np.float32)}, r"contains 120 value\(s\) that are NaN or infinite"),
        ({"y": np.zeros(29, dtype=int)}, r"has 30 rows, but the labels have the shape \(29,\)"),
        ({"y": np.full(30, -1)}, "one is -1; leave out unlabeled nodes"),
        ({"splits": random_splits(31)}, "for 31 nodes, but the embedding has 30 rows"),
        ({"splits": Splits("none", ROLES[:0])}, "at least one split, but there is none"),
        ({"splits": Splits("no training", np.where(ROLES == TRAIN, UNUSED, ROLES))}, "Split 0 has no training nodes"),
        ({"splits": Splits("train", np.full((2, 30), TRAIN, dtype=np.uint8))}, "Split 0 has no validation nodes"),
        ({"splits": Splits("no test", np.where([[0], [1]] & (ROLES == TEST), UNUSED, ROLES))}, "Split 1 has no test"),
    ],
)
def test_invalid_inputs_are_rejected(change: dict, message: str) -> None:
    valid = {"x": np.eye(30, 4, dtype=np.float32), "y": np.arange(30) % 3, "splits": random_splits(30)}
    x, y, splits = (valid | change).values()
    with pytest.raises(UserError, match=message):
        logistic_probe(x, y, splits)
    with pytest.raises(UserError, match=message):
        adam_probe(x, y, splits, generator())
