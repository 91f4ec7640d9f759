"""The protocols depend on embedding, labels, splits and seed, and pick epochs as they say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from afgrl.data.splits import random_splits
from afgrl.errors import UserError
from afgrl.evaluate import Score, as_json, label_free, pick, snapshot

Digits = tuple[np.ndarray, np.ndarray]


def record(epoch: int, validation: float, test: float, nmi: float, sim: float) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "splits": "2 by hand",
        "validation": [validation - 1, validation + 1],
        "test": [test - 1, test + 1],
        "nmi": [nmi, nmi],
        "homogeneity": [nmi / 2, nmi / 2],
        "ari": [nmi / 4, nmi / 4],
        "sim@5": sim,
        "sim@10": sim - 0.1,
    }


def test_score_by_hand() -> None:
    score = Score("accuracy", (1.0, 2.0, 3.0, 6.0), "by hand")
    assert (score.mean, score.std) == (3.0, pytest.approx(np.std([1, 2, 3, 6])))
    assert score.as_json() == {"mean": 3.0, "std": score.std, "values": [1.0, 2.0, 3.0, 6.0]}
    single = Score("sim@5", (np.float32(0.5),), "by hand")  # type: ignore[arg-type]
    assert (single.mean, single.std) == (0.5, 0.0)
    assert type(single.values[0]) is float
    with pytest.raises(ValueError, match="no values"):
        Score("nothing", (), "by hand")


def test_each_task_picks_its_own_epoch_the_first_among_equals() -> None:
    records = [
        record(0, validation=80, test=99, nmi=0.2, sim=0.9),
        record(5, validation=90, test=70, nmi=0.3, sim=0.9),
        record(10, validation=90, test=95, nmi=0.8, sim=0.5),
    ]
    for order in (records, records[::-1]):
        picked = pick(order)
        assert {task: scores["epoch"] for task, scores in picked.items()} == {
            "classification": 5,
            "clustering": 10,
            "similarity": 0,
        }
        assert picked["classification"]["accuracy"].values == (69.0, 71.0)
        assert picked["clustering"]["homogeneity"].mean == pytest.approx(0.4)
        assert picked["similarity"]["sim@10"].mean == pytest.approx(0.8)


def test_nothing_evaluated_is_said_in_a_sentence() -> None:
    with pytest.raises(UserError, match="no epoch was evaluated"):
        pick([])


def test_label_free_has_the_form_of_scores_json_and_repeats(digits: Digits) -> None:
    splits = random_splits(600, count=3)
    before = torch.get_rng_state()
    scores = label_free(*digits, splits, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    form = as_json(scores)
    assert json.loads(json.dumps(form)) == form
    assert {task: sorted(leaves) for task, leaves in form.items()} == {
        "classification": ["accuracy"],
        "clustering": ["ari", "homogeneity", "nmi"],
        "similarity": ["sim@10", "sim@5"],
    }
    assert all(set(leaf) == {"mean", "std", "values"} for task in form.values() for leaf in task.values())
    assert len(form["classification"]["accuracy"]["values"]) == 3
    assert len(form["clustering"]["nmi"]["values"]) == 10
    assert splits.name in scores["classification"]["accuracy"].protocol
    assert as_json(label_free(*digits, splits, seed=1)) == form


def test_a_snapshot_is_plain_json_and_does_not_depend_on_what_was_evaluated_before(digits: Digits) -> None:
    x, y = digits[0][:200], digits[1][:200]
    splits = random_splits(200, count=2)
    first = snapshot(x, y, splits, epoch=5, seed=0)
    snapshot(-x, y, splits, epoch=10, seed=0)
    assert snapshot(x, y, splits, epoch=5, seed=0) == first
    assert json.loads(json.dumps(first)) == first
    assert len(first["validation"]) == len(first["test"]) == 2
    assert len(first["nmi"]) == 10
    assert as_json(pick([first]))["classification"]["epoch"] == 5


def test_a_known_structure_scores_high_and_noise_scores_low() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    good = np.eye(4, 16, dtype=np.float32)[y] + rng.normal(size=(400, 16)).astype(np.float32) * 0.1
    splits = random_splits(400, count=2)
    scores = as_json(label_free(good, y, splits))
    assert scores["classification"]["accuracy"]["mean"] > 95
    assert scores["similarity"]["sim@5"]["mean"] > 0.95
    noise = as_json(label_free(rng.normal(size=(400, 16)).astype(np.float32), y, splits))
    assert noise["classification"]["accuracy"]["mean"] < 40
    assert noise["clustering"]["nmi"]["mean"] < 0.1
