"""Several runs or fitted estimators side by side: as a table of scores, or as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from afgrl.errors import UserError
from afgrl.estimators import NodeEmbedder
from afgrl.estimators.saved import Model, as_runs
from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS
from afgrl.experiment.evaluation import evaluate_run
from afgrl.report.page import write_page
from afgrl.report.payload import display_names
from afgrl.runs.folder import Run
from afgrl.train.device import choose_device


def compare(models: Sequence[Model], *, device: str = "auto") -> list[dict[str, Any]]:
    """The mean scores of runs or fitted estimators, one row each, in the order of ``models``: ``pd.DataFrame(rows)``
    is a table. What has no scores yet is evaluated, without baselines; that needs labels.
    """
    _check_any(models)
    with as_runs(models) as runs:
        return [
            _row(name, run.scores() if run.has_scores else evaluate_run(run, choose_device(device), baselines=False))
            for name, run in zip(display_names(runs), runs, strict=True)
        ]


def write_report(
    models: Model | Sequence[Model], out: str | Path, *, projection: str = "tsne",
    message: Callable[[str], Any] = lambda sentence: None,
) -> Path:  # fmt: skip
    """Write one HTML file that shows a run or a fitted estimator, or compares several; it opens without a network
    connection.

    ``projection`` is ``tsne``, ``pca`` or one that was stored by ``Run.save_projection``.
    """
    several = [models] if isinstance(models, (Run, NodeEmbedder, str, Path)) else models
    _check_any(several)
    with as_runs(several) as runs:
        return write_page(runs, Path(out), projection=projection, message=message)


def _row(name: str, scores: dict[str, Any]) -> dict[str, Any]:
    tasks = scores["last-epoch"]
    means = {
        f"{task} {score}": tasks[task][score]["mean"]
        for task, score, _ in (*COLUMNS, *READOUT_COLUMNS)
        if score in tasks.get(task, {})
    }
    return {"name": name, **{key: scores[key] for key in ("dataset", "method", "seed")}, **means}


def _check_any(models: Sequence[Model]) -> None:
    if not models:
        raise UserError("A report needs at least one run.")
