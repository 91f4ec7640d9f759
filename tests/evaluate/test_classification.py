"""The probes equal what scikit-learn, or one torch layer per split, would have said."""

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

Digits = tuple[np.ndarray, np.ndarray]
MakeSplits = Callable[[int, list[tuple[int, int]]], Splits]


def scikit_learn_probe(x: np.ndarray, y: np.ndarray, roles: np.ndarray) -> float:
    x = normalize(x)
    fits = []
    for c in classification.STRENGTHS:
        model = LogisticRegression(C=c, tol=1e-6, max_iter=20000).fit(x[roles == TRAIN], y[roles == TRAIN])
        fits.append([model.score(x[roles == role], y[roles == role]) for role in (VALIDATION, TEST)])
    return 100 * max(fits, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("sizes", [(100, 250), (40, 250)])  # of 64 columns: more and fewer training rows
def test_accuracy_is_scikit_learns(digits: Digits, sizes: tuple[int, int], splits_of_sizes: MakeSplits) -> None:
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
    dense_pair, sparse_pair = (
        adam_probe(table, y, splits, torch.Generator().manual_seed(0)) for table in (x, sp.csr_array(x))
    )
    assert sparse_pair == dense_pair


@pytest.mark.parametrize("width", [64, 20])
def test_unequal_splits_are_scored_as_if_alone(digits: Digits, width: int, splits_of_sizes: MakeSplits) -> None:
    x, y = digits[0][:, :width], digits[1]
    splits = splits_of_sizes(600, [(30, 40), (55, 20), (90, 100)])
    together = logistic_probe(x, y, splits)
    alone = [logistic_probe(x, y, Splits("one", row[None]))[0] for row in splits.roles]
    assert together == pytest.approx(alone, abs=0.5)  # float32 in other shapes: a node or two on the border


def test_chunks_of_splits_change_nothing(
    digits: Digits, monkeypatch: pytest.MonkeyPatch, splits_of_sizes: MakeSplits
) -> None:
    x, y = digits
    splits = splits_of_sizes(600, [(60, 40)] * 4)
    whole = logistic_probe(x, y, splits), adam_probe(x, y, splits, torch.Generator().manual_seed(0))
    monkeypatch.setattr(classification, "CHUNK_BYTES", 1)
    parts = logistic_probe(x, y, splits), adam_probe(x, y, splits, torch.Generator().manual_seed(0))
    assert parts[0] == pytest.approx(whole[0], abs=0.5)
    np.testing.assert_allclose(parts[1], whole[1], atol=0.5)


def test_by_hand_two_directions_are_told_apart() -> None:
    x = torch.tensor([[1.0, 0], [0, 1]]).repeat(6, 1)
    y = np.array([0, 1] * 6)
    roles = np.array([[TRAIN, TRAIN, VALIDATION, VALIDATION] + [TEST] * 7 + [UNUSED]], dtype=np.uint8)
    assert logistic_probe(x, y, Splits("hand", roles)) == [100.0]
    y[4] = 1  # one of seven test nodes is now mislabeled
    assert logistic_probe(x, y, Splits("hand", roles)) == [pytest.approx(100 * 6 / 7)]


def test_adam_probe_equals_a_loop_of_separate_layers(digits: Digits, splits_of_sizes: MakeSplits) -> None:
    x, y = digits
    splits = splits_of_sizes(600, [(60, 40), (45, 40), (60, 30)])
    validation, test = adam_probe(x, y, splits, torch.Generator().manual_seed(3))
    bound = math.sqrt(6 / (64 + 10))
    starts = torch.empty(3, 64, 10).uniform_(-bound, bound, generator=torch.Generator().manual_seed(3))
    table, classes = torch.from_numpy(x), torch.from_numpy(y)
    for i, roles in enumerate(torch.from_numpy(splits.roles)):
        layer = torch.nn.Linear(64, 10)
        with torch.no_grad():
            layer.weight.copy_(starts[i].T)
            layer.bias.zero_()
        adam = torch.optim.Adam(layer.parameters(), lr=0.01, weight_decay=1e-5)
        for _ in range(100):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(layer(table[roles == TRAIN]), classes[roles == TRAIN]).backward()
            adam.step()
        right = (layer(table).argmax(1) == classes).double()
        # A border-line node may fall either way in another order of summation.
        assert validation[i] == pytest.approx(100 * float(right[roles == VALIDATION].mean()), abs=2.6)
        assert test[i] == pytest.approx(100 * float(right[roles == TEST].mean()), abs=0.3)


def test_probes_leave_the_global_generator_alone_and_repeat(digits: Digits) -> None:
    x, y = digits
    splits = random_splits(600, count=2)
    before = torch.get_rng_state()
    with torch.inference_mode():  # as a caller evaluating a model would
        first = adam_probe(x, y, splits, torch.Generator().manual_seed(0)), logistic_probe(x, y, splits)
    again = adam_probe(x, y, splits, torch.Generator().manual_seed(0)), logistic_probe(x, y, splits)
    assert first == again
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_of_zeros_and_a_class_unseen_in_training_are_legal(splits_of_sizes: MakeSplits) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    x[::7] = 0
    roles = splits_of_sizes(60, [(20, 10)]).roles
    roles[0, (roles[0] == TRAIN) & (y == 2)] = UNUSED
    for table in (x, sp.csr_array(x)):
        assert math.isfinite(logistic_probe(table, y, Splits("hand", roles))[0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": np.full((30, 4), np.nan, dtype=np.float32)}, r"holds 120 value\(s\) that are NaN"),
        ({"y": np.zeros(29, dtype=int)}, "has 30 rows, but the labels"),
        ({"y": np.full(30, -1)}, "there is a -1"),
        ({"splits": random_splits(31)}, "for 31 nodes, but the embedding has 30"),
        (
            {"splits": Splits("empty", np.full((2, 30), TRAIN, dtype=np.uint8))},
            "Split 0 has no validation nodes",
        ),
    ],
)
def test_what_cannot_be_scored_is_said_in_a_sentence(change: dict, sentence: str) -> None:
    good = {"x": np.eye(30, 4, dtype=np.float32), "y": np.arange(30) % 3, "splits": random_splits(30)}
    x, y, splits = (good | change).values()
    with pytest.raises(UserError, match=sentence):
        logistic_probe(x, y, splits)
    with pytest.raises(UserError, match=sentence):
        adam_probe(x, y, splits, torch.Generator())
