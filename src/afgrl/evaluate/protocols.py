"""The two evaluation protocols.

last-epoch: one embedding for all tasks; no label is used to choose anything about it.
best-epoch: the paper's; labels choose an epoch for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from afgrl.data.splits import Splits
from afgrl.errors import UserError
from afgrl.evaluate.classification import adam_probe, logistic_probe, prediction_accuracies
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.matrix import select_rows
from afgrl.evaluate.sample import Sample
from afgrl.evaluate.score import Score
from afgrl.evaluate.similarity import similarity_scores

LAST_EPOCH = "last-epoch"
BEST_EPOCH = "best-epoch"
READOUT = "clustering-readout"  # a task of last-epoch evaluation
READOUT_RESTARTS = 10  # per fit: the lowest inertia of ten varies less than that of one, and needs no label


def select_labeled(y: np.ndarray, splits: Splits) -> tuple[np.ndarray, np.ndarray, Splits]:
    """The row numbers of the labeled nodes, their labels, and the splits restricted to them; unlabeled is -1."""
    rows = np.flatnonzero(y >= 0)
    return rows, y[rows], Splits(splits.name, splits.roles[:, rows])


def evaluate_last_epoch(
    embedding: Any, y: Any, splits: Splits, seed: int = 0, *, n_fits: int = 10, readout: Any = None,
    sample: Sample | None = None,
) -> dict[str, dict[str, Score]]:  # fmt: skip
    """Evaluate one embedding on all three tasks: {"classification", "clustering", "similarity"} → name → Score.

    ``readout`` holds the same rows of ``clustering_readout``; with it, there is a fourth task, "clustering-readout".
    ``sample`` says which of many rows are scored.
    """
    rows, n_fits = (None, n_fits) if sample is None else (sample.clustered, sample.n_fits)
    clusters = cluster_scores(embedding, y, _generator(embedding, seed), n_fits=n_fits, fitted=rows)
    scores = {
        "classification": {"accuracy": _classification(embedding, y, splits, sample)},
        "clustering": {
            name: _score(name, values, LAST_EPOCH, f"{len(values)} restarts of k-means")
            for name, values in clusters.items()
        },
        "similarity": _similarity(embedding, y, sample),
    }
    return scores if readout is None else scores | {READOUT: _readout_scores(readout, y, seed, n_fits, rows)}


def _classification(embedding: Any, y: Any, splits: Splits, sample: Sample | None) -> Score:
    if sample is None:
        return _score("accuracy", logistic_probe(embedding, y, splits), LAST_EPOCH, splits.name)
    rows, own = select_rows(embedding, sample.classified), y[sample.classified]
    found = logistic_probe(rows, own, sample.splits, tolerance=sample.tolerance)
    return _score("accuracy", found, LAST_EPOCH, sample.splits.name)


def _similarity(embedding: Any, y: Any, sample: Sample | None) -> dict[str, Score]:
    found = similarity_scores(embedding, y, queries=None if sample is None else sample.queries)
    nodes = "all nodes" if sample is None else f"{len(sample.queries):,} random nodes among all"
    return {name: _score(name, [value], LAST_EPOCH, nodes) for name, value in found.items()}


def _readout_scores(readout: Any, y: Any, seed: int, n_fits: int, rows: np.ndarray | None) -> dict[str, Score]:
    generator = _generator(readout, seed)
    clusters = cluster_scores(readout, y, generator, n_fits=n_fits, n_init=READOUT_RESTARTS, fitted=rows)
    measured_on = f"smoothed readout, {n_fits} fits of k-means, each the best of {READOUT_RESTARTS} restarts"
    return {name: _score(name, values, LAST_EPOCH, measured_on) for name, values in clusters.items()}


def evaluate_predictions(predicted: Any, y: Any, splits: Splits) -> dict[str, dict[str, Score]]:
    """The classification task of a supervised method, which predicts classes [s, n] from the labels of each split."""
    accuracies = prediction_accuracies(predicted, y, splits)
    return {"classification": {"accuracy": _score("accuracy", accuracies, LAST_EPOCH, f"supervised, {splits.name}")}}


def evaluate_epoch(
    embedding: Any, y: Any, splits: Splits, epoch: int, seed: int = 0, *, n_fits: int = 10, n_init: int = 10
) -> dict[str, Any]:
    """Evaluate one epoch for the best-epoch protocol: a JSON record, one line of ``evaluations.jsonl``.

    Every epoch uses the same seed, so a record does not depend on which other epochs are evaluated. The default of ten
    restarts per k-means fit was scikit-learn's when the paper was written.
    """
    validation, test = adam_probe(embedding, y, splits, _generator(embedding, seed))
    clusters = cluster_scores(embedding, y, _generator(embedding, seed), n_fits=n_fits, n_init=n_init)
    return {
        "epoch": int(epoch),
        "splits": splits.name,
        "validation": validation,
        "test": test,
        **clusters,
        **similarity_scores(embedding, y),
    }


def select_best_epochs(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The scores of each task at its own best epoch (the first if several are equal), and that epoch.

    Classification uses the epoch with the highest mean validation accuracy. Clustering and similarity use the epoch
    with the highest NMI and Sim@5, which are measured on all labels and reported themselves.
    """
    if len(records) == 0:
        raise UserError("Best-epoch evaluation selects from the evaluated epochs, but no epoch was evaluated.")
    classified = _best(records, lambda record: _mean(record["validation"]))
    clustered = _best(records, lambda record: _mean(record["nmi"]))
    similar = _best(records, lambda record: record["sim@5"])
    by_validation = f"epoch with the highest validation accuracy, {classified['splits']}"
    by_nmi = "epoch with the highest NMI on all labels"
    by_similarity = "epoch with the highest Sim@5 on all labels"
    return {
        "classification": {
            "accuracy": _score("accuracy", classified["test"], BEST_EPOCH, by_validation),
            "epoch": classified["epoch"],
        },
        "clustering": {
            **{name: _score(name, clustered[name], BEST_EPOCH, by_nmi) for name in ("nmi", "homogeneity", "ari")},
            "epoch": clustered["epoch"],
        },
        "similarity": {
            **{name: _score(name, [similar[name]], BEST_EPOCH, by_similarity) for name in ("sim@5", "sim@10")},
            "epoch": similar["epoch"],
        },
    }


def scores_to_json(tasks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The result of ``evaluate_last_epoch`` or ``select_best_epochs`` in the form of ``scores.json``."""
    return {
        task: {name: leaf.as_json() if isinstance(leaf, Score) else leaf for name, leaf in leaves.items()}
        for task, leaves in tasks.items()
    }


def _best(records: Sequence[dict[str, Any]], criterion: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    return max(sorted(records, key=lambda record: record["epoch"]), key=criterion)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _score(name: str, values: Sequence[float], protocol: str, measured_on: str) -> Score:
    return Score(name, tuple(values), f"{protocol}: {measured_on}")


def _generator(embedding: Any, seed: int) -> torch.Generator:
    device = embedding.device if isinstance(embedding, torch.Tensor) else "cpu"
    return torch.Generator(device).manual_seed(seed)
