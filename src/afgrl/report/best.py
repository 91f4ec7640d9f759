"""The sentence under a table of scores: which vectors are best, and how to make them if they are untrained."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from afgrl.evaluate.best import leads, sentence
from afgrl.evaluate.columns import BASELINES, COLUMNS, ScoreColumn
from afgrl.experiment.untrained import command_of_baseline
from afgrl.runs.folder import Run
from afgrl.runs.invocation import pasteable

TRAINED = "trained"


class Best(NamedTuple):
    sentence: str
    commands: dict[str, str]  # name of untrained vectors that are best in something → the command that makes them


def best_vectors(run: Run, scores: dict[str, Any], columns: Sequence[ScoreColumn]) -> Best | None:
    """Of the trained vectors and the baselines; None if there are no baselines. Vectors of the best epoch do not count,
    since labels chose them."""
    found = leads({TRAINED: scores["last-epoch"], **scores.get("baselines", {})}, columns, TRAINED)
    if not found:
        return None
    untrained = dict.fromkeys(lead.best for _, lead in found if lead.best != TRAINED)
    commands = {BASELINES.get(name, name): command_of_baseline(run, name) for name in untrained}
    made = {name: pasteable(*shlex.split(command)[1:]) for name, command in commands.items() if command}
    return Best(sentence(found, BASELINES), made)


def best_run(runs: Sequence[Run], names: Sequence[str]) -> str | None:
    """Of several runs on one graph; None without scores of at least two."""
    scored = [(run, name) for run, name in zip(runs, names, strict=True) if run.has_scores]
    if len(scored) < 2:
        return None
    scores = [run.scores() for run, _ in scored]
    if len({found["dataset"] for found in scores}) > 1:
        return None
    parts = {name: found["last-epoch"] for (_, name), found in zip(scored, scores, strict=True)}
    found = leads(parts, COLUMNS, same_splits=_have_same_splits([run for run, _ in scored]))
    return sentence(found, {}) if found else None


def _have_same_splits(runs: Sequence[Run]) -> bool:
    (y, splits), *others = [run.labels() for run in runs]
    roles = [None if found is None else found.roles for _, found in others]
    same_labels = all(_equal(y, other) for other, _ in others)
    return same_labels and splits is not None and all(_equal(splits.roles, other) for other in roles)


def _equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)
