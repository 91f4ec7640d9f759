"""The scores depend on embedding, labels, splits and seed only, and epochs are chosen as documented."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits, random_splits
from afgrl.errors import UserError
from afgrl.evaluate import (
    Score,
    adam_probe,
    cluster_scores,
    evaluate_epoch,
    evaluate_last_epoch,
    evaluate_predictions,
    logistic_probe,
    scores_to_json,
    select_best_epochs,
    select_labeled,
    similarity_scores,
)
from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS

Digits = tuple[np.ndarray, np.ndarray]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_score_by_hand() -> None:
    score = Score("accuracy", (1.0, 2.0, 3.0, 6.0), "by hand")
    assert (score.mean, score.std) == (3.0, pytest.approx(np.std([1, 2, 3, 6])))
    assert score.as_json() == {"mean": 3.0, "std": score.std, "values": [1.0, 2.0, 3.0, 6.0]}
    assert str(score) == "3.000 ± 1.871"
    single = Score("sim@5", (np.float32(0.5),), "by hand")  # type: ignore[arg-type]
    assert (single.mean, single.std) == (0.5, 0.0)
    assert type(single.values[0]) is float
    with pytest.raises(ValueError, match="'nothing' has no values"):
        Score("nothing", (), "by hand")


def test_unlabeled_nodes_are_removed_with_their_roles() -> None:
    roles = np.array([[1, 2, 3, 1, 3], [3, 3, 1, 2, 2]], dtype=np.uint8)
    rows, y, splits = select_labeled(np.array([-1, 0, 2, -1, 0]), Splits("by hand", roles))
    assert rows.tolist() == [1, 2, 4]
    assert y.tolist() == [0, 2, 0]
    assert (splits.name, splits.roles.tolist()) == ("by hand", [[2, 3, 3], [3, 1, 2]])


# Best-epoch evaluation


def record(epoch: int, **scores: Any) -> dict[str, Any]:
    """An evaluated epoch; by default every score is 0."""
    zeros = {"validation": [0.0, 0.0], "test": [0.0, 0.0], "nmi": [0.0, 0.0], "homogeneity": [0.0], "ari": [0.0]}
    return {"epoch": epoch, "splits": "2 by hand", **zeros, "sim@5": 0.0, "sim@10": 0.0} | scores


def chosen_epochs(*records: dict[str, Any]) -> dict[str, int]:
    best, reverse = select_best_epochs(records), select_best_epochs(records[::-1])
    assert best == reverse  # the order of the records does not matter
    return {task: scores["epoch"] for task, scores in best.items()}


def test_each_task_has_its_own_best_epoch() -> None:
    records = [
        record(0, validation=[70.0, 80.0], test=[90.0, 99.0], **{"sim@5": 0.9, "sim@10": 0.8}),
        record(5, validation=[80.0, 82.0], test=[60.0, 62.0], nmi=[0.1, 0.2]),
        record(10, nmi=[0.7, 0.9], homogeneity=[0.3, 0.5], ari=[0.1, 0.2]),
    ]
    assert chosen_epochs(*records) == {"classification": 5, "clustering": 10, "similarity": 0}
    best = select_best_epochs(records)
    assert best["classification"]["accuracy"].values == (60.0, 62.0)
    assert best["clustering"]["nmi"].values == (0.7, 0.9)
    assert best["clustering"]["homogeneity"].values == (0.3, 0.5)
    assert best["clustering"]["ari"].values == (0.1, 0.2)
    assert (best["similarity"]["sim@5"].values, best["similarity"]["sim@10"].values) == ((0.9,), (0.8,))


def test_the_classification_epoch_has_the_highest_mean_validation_accuracy() -> None:
    single_split = record(5, validation=[99.0, 1.0], test=[99.0, 99.0])
    test_only = record(10, test=[100.0, 100.0])
    assert chosen_epochs(record(0, validation=[51.0, 51.0]), single_split, test_only)["classification"] == 0


def test_the_clustering_epoch_has_the_highest_mean_nmi() -> None:
    single_fit = record(5, nmi=[0.9, 0.0])
    others = record(10, ari=[0.9], homogeneity=[0.9])
    assert chosen_epochs(single_fit, others, record(15, nmi=[0.5, 0.5]))["clustering"] == 15


def test_the_similarity_epoch_has_the_highest_sim_at_5() -> None:
    assert chosen_epochs(record(0, **{"sim@10": 0.9}), record(5, **{"sim@5": 0.1}))["similarity"] == 5


def test_the_first_of_equal_epochs_is_chosen() -> None:
    equal = [record(epoch, validation=[80.0, 80.0], nmi=[0.5, 0.5], **{"sim@5": 0.5}) for epoch in (5, 10, 20)]
    assert set(chosen_epochs(record(0), *equal).values()) == {5}


def test_best_epoch_evaluation_needs_an_evaluated_epoch() -> None:
    with pytest.raises(UserError, match="no epoch was evaluated"):
        select_best_epochs([])


def test_an_evaluated_epoch_has_the_scores_of_its_parts(digits: Digits) -> None:
    x, y = digits[0][:200], digits[1][:200]
    splits = random_splits(200, count=2)
    evaluated = evaluate_epoch(x, y, splits, epoch=5, seed=3)
    validation, test = adam_probe(x, y, splits, generator(3))
    clusters = cluster_scores(x, y, generator(3), n_fits=10, n_init=10)  # scikit-learn's default of the paper's time
    parts = {"validation": validation, "test": test} | clusters | similarity_scores(x, y)
    assert evaluated == {"epoch": 5, "splits": splits.name} | parts
    assert json.loads(json.dumps(evaluated)) == evaluated
    fewer = evaluate_epoch(x, y, splits, epoch=5, seed=3, n_fits=2, n_init=1)
    assert fewer["nmi"] == cluster_scores(x, y, generator(3), n_fits=2, n_init=1)["nmi"]


def test_an_evaluated_epoch_does_not_depend_on_its_number_or_on_other_epochs(digits: Digits) -> None:
    x, y = digits[0][:200], digits[1][:200]
    splits = random_splits(200, count=2)
    first = evaluate_epoch(x, y, splits, epoch=5, seed=0, n_init=2)
    evaluate_epoch(-x, y, splits, epoch=10, seed=0, n_init=2)
    assert evaluate_epoch(x, y, splits, epoch=15, seed=0, n_init=2) == first | {"epoch": 15}


# Last-epoch evaluation


def test_last_epoch_scores_are_those_of_their_parts(digits: Digits) -> None:
    splits = random_splits(600, count=3)
    before = torch.get_rng_state()
    scores = scores_to_json(evaluate_last_epoch(*digits, splits, seed=1, n_fits=4))
    assert torch.equal(torch.get_rng_state(), before)
    assert scores["classification"]["accuracy"]["values"] == logistic_probe(*digits, splits)
    clusters = cluster_scores(*digits, generator(1), n_fits=4, n_init=1)
    assert {name: leaf["values"] for name, leaf in scores["clustering"].items()} == clusters
    similar = similarity_scores(*digits)
    assert {name: leaf["values"] for name, leaf in scores["similarity"].items()} == {k: [v] for k, v in similar.items()}


def test_last_epoch_scores_have_the_form_of_scores_json_and_the_columns_of_the_tables(digits: Digits) -> None:
    splits = random_splits(600, count=3)
    form = scores_to_json(evaluate_last_epoch(*digits, splits))
    assert json.loads(json.dumps(form)) == form
    assert [(task, name) for task, leaves in form.items() for name in leaves] == [column[:2] for column in COLUMNS]
    assert all(set(leaf) == {"mean", "std", "values"} for task in form.values() for leaf in task.values())
    assert len(form["classification"]["accuracy"]["values"]) == 3
    assert len(form["clustering"]["nmi"]["values"]) == 10


def test_the_readout_is_a_fourth_task_with_ten_restarts_per_fit(digits: Digits) -> None:
    x, y = digits[0][:200], digits[1][:200]
    splits = random_splits(200, count=2)
    readout = torch.from_numpy(x[:, ::3])
    plain = evaluate_last_epoch(x, y, splits, seed=1, n_fits=3)
    scores = evaluate_last_epoch(x, y, splits, seed=1, n_fits=3, readout=readout)
    assert {task: scores[task] for task in plain} == plain
    assert scores.keys() - plain.keys() == {"clustering-readout"}
    found = scores["clustering-readout"]
    assert [("clustering-readout", name) for name in found] == [column[:2] for column in READOUT_COLUMNS]
    expected = cluster_scores(readout, y, generator(1), n_fits=3, n_init=10)
    assert {name: list(score.values) for name, score in found.items()} == expected
    described = "last-epoch: smoothed readout, 3 fits of k-means, each the best of 10 restarts"
    assert {score.protocol for score in found.values()} == {described}


def test_every_score_names_its_protocol(digits: Digits) -> None:
    x, y = digits[0][:100], digits[1][:100]
    splits = random_splits(100, count=2)
    last = evaluate_last_epoch(x, y, splits, n_fits=3)
    assert last["classification"]["accuracy"].protocol == f"last-epoch: {splits.name}"
    assert last["clustering"]["nmi"].protocol == "last-epoch: 3 restarts of k-means"
    assert last["similarity"]["sim@5"].protocol == "last-epoch: all nodes"
    best = select_best_epochs([record(0)])
    assert best["classification"]["accuracy"].protocol.startswith("best-epoch: epoch with the highest validation acc")
    assert best["clustering"]["ari"].protocol == "best-epoch: epoch with the highest NMI on all labels"
    assert best["similarity"]["sim@10"].protocol == "best-epoch: epoch with the highest Sim@5 on all labels"


def test_a_clear_structure_scores_high_and_noise_scores_low() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    clear = np.eye(4, 16, dtype=np.float32)[y] + rng.normal(size=(400, 16)).astype(np.float32) * 0.1
    splits = random_splits(400, count=2)
    scores = scores_to_json(evaluate_last_epoch(clear, y, splits))
    assert scores["classification"]["accuracy"]["mean"] > 95
    assert scores["similarity"]["sim@5"]["mean"] > 0.95
    noise = scores_to_json(evaluate_last_epoch(rng.normal(size=(400, 16)).astype(np.float32), y, splits))
    assert noise["classification"]["accuracy"]["mean"] < 40
    assert noise["clustering"]["nmi"]["mean"] < 0.1


def test_predictions_of_a_supervised_method() -> None:
    roles = np.array([[TRAIN, VALIDATION, TEST, TEST], [TEST, TEST, TRAIN, VALIDATION]], dtype=np.uint8)
    predicted = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
    scores = evaluate_predictions(predicted, np.array([0, 1, 0, 0]), Splits("2 by hand", roles))
    accuracy = scores["classification"]["accuracy"]
    assert accuracy.values == (50.0, 100.0)
    assert accuracy.protocol == "last-epoch: supervised, 2 by hand"
    assert scores.keys() == {"classification"}
