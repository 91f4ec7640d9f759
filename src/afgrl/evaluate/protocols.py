"""The two ways a number is made here: from one embedding chosen without labels, or as the paper does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from afgrl.data.splits import Splits
from afgrl.errors import UserError
from afgrl.evaluate.classification import adam_probe, logistic_probe, prediction_accuracies
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.score import Score
from afgrl.evaluate.similarity import similarity_scores

LABEL_FREE = "label-free"
PAPER = "paper"


def labeled(y: np.ndarray, splits: Splits) -> tuple[np.ndarray, np.ndarray, Splits]:
    """The positions of the nodes that have a label, these labels, and the splits of these nodes alone."""
    rows = np.flatnonzero(y >= 0)
    return rows, y[rows], Splits(splits.name, splits.roles[:, rows])


def label_free(
    embedding: Any, y: Any, splits: Splits, seed: int = 0, *, n_fits: int = 10
) -> dict[str, dict[str, Score]]:
    """One embedding for all three tasks: {"classification", "clustering", "similarity"} → name → Score."""
    accuracies = logistic_probe(embedding, y, splits)
    clusters = cluster_scores(embedding, y, _generator(embedding, seed), n_fits=n_fits)
    return {
        "classification": {"accuracy": _score("accuracy", accuracies, LABEL_FREE, splits.name)},
        "clustering": {
            name: _score(name, values, LABEL_FREE, f"{len(values)} restarts of k-means")
            for name, values in clusters.items()
        },
        "similarity": {
            name: _score(name, [value], LABEL_FREE, "all nodes")
            for name, value in similarity_scores(embedding, y).items()
        },
    }


def predicted(classes: Any, y: Any, splits: Splits) -> dict[str, dict[str, Score]]:
    """The classification of a method that was taught by each split's labels: ``classes`` is [s, n]."""
    accuracies = prediction_accuracies(classes, y, splits)
    return {"classification": {"accuracy": _score("accuracy", accuracies, LABEL_FREE, f"supervised, {splits.name}")}}


def snapshot(
    embedding: Any, y: Any, splits: Splits, epoch: int, seed: int = 0, *, n_fits: int = 10, n_init: int = 10
) -> dict[str, Any]:
    """What the paper's protocol records of one evaluated epoch; plain JSON, one line of a file.

    Every epoch draws from the same seed, so that an epoch's record does not depend on the others.
    """
    validation, test = adam_probe(embedding, y, splits, _generator(embedding, seed))
    # By default ten restarts a fit: scikit-learn's when the paper was written.
    clusters = cluster_scores(embedding, y, _generator(embedding, seed), n_fits=n_fits, n_init=n_init)
    return {
        "epoch": int(epoch),
        "splits": splits.name,
        "validation": validation,
        "test": test,
        **clusters,
        **similarity_scores(embedding, y),
    }


def pick(snapshots: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The paper's numbers: each task from its own best epoch, the first among equals, and that epoch.

    Classification takes the epoch with the best mean validation accuracy; clustering and similarity take
    theirs by the reported score itself, on all labels.
    """
    if len(snapshots) == 0:
        raise UserError("The paper's protocol picks an epoch, but no epoch was evaluated.")
    probed = _best(snapshots, lambda record: _mean(record["validation"]))
    clustered = _best(snapshots, lambda record: _mean(record["nmi"]))
    similar = _best(snapshots, lambda record: record["sim@5"])
    by_validation = f"epoch by validation accuracy, {probed['splits']}"
    accuracy = _score("accuracy", probed["test"], PAPER, by_validation)
    return {
        "classification": {"accuracy": accuracy, "epoch": probed["epoch"]},
        "clustering": {
            **{
                name: _score(name, clustered[name], PAPER, "epoch by NMI on all labels, best of 10 restarts a fit")
                for name in ("nmi", "homogeneity", "ari")
            },
            "epoch": clustered["epoch"],
        },
        "similarity": {
            **{
                name: _score(name, [similar[name]], PAPER, "epoch by sim@5 on all labels")
                for name in ("sim@5", "sim@10")
            },
            "epoch": similar["epoch"],
        },
    }


def as_json(tasks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The part of ``scores.json`` for what ``label_free`` or ``pick`` gave."""
    return {
        task: {name: leaf.as_json() if isinstance(leaf, Score) else leaf for name, leaf in leaves.items()}
        for task, leaves in tasks.items()
    }


def _best(snapshots: Sequence[dict[str, Any]], merit: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    return max(sorted(snapshots, key=lambda record: record["epoch"]), key=merit)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _score(name: str, values: Sequence[float], protocol: str, measured_on: str) -> Score:
    return Score(name, tuple(values), f"{protocol}: {measured_on}")


def _generator(embedding: Any, seed: int) -> torch.Generator:
    device = embedding.device if isinstance(embedding, torch.Tensor) else "cpu"
    return torch.Generator(device).manual_seed(seed)
