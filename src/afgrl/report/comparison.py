"""Several runs or fitted estimators side by side: as a table of scores, or as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from afgrl.analysis.quality.panel import measures_of_run
from afgrl.data.read_keywords import ReadKeywords, with_keywords
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError
from afgrl.estimators import MethodEstimator
from afgrl.estimators.saved import Model, as_runs
from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.model import complete_settings
from afgrl.experiment.several import fit_each
from afgrl.report.page import write_page
from afgrl.report.payload import display_names
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec, absolute_source
from afgrl.train.device import choose_device


def compare(
    models: Sequence[Model], *, device: str = "auto", message: Callable[[str], Any] = lambda sentence: None
) -> list[dict[str, Any]]:
    """The mean scores of runs or fitted estimators and their measures without labels (docs/quality.md), one row each,
    in the order of ``models``: ``pd.DataFrame(rows)`` is a table. What has no scores yet is evaluated, without
    baselines, if it has labels. All are clustered into as many clusters as the first.
    """
    _check_any(models)
    rows: list[dict[str, Any]] = []
    with as_runs(models) as runs:
        for name, run in zip(display_names(runs), runs, strict=True):
            message(f"Measuring the vectors of {name}.")
            measures = measures_of_run(run, rows[0]["n_clusters"] if rows else None)
            rows.append(_identity(name, run) | _scores(run, device, message) | measures)
    return rows


def compare_methods(
    source: str | Path, methods: Sequence[str], out: str | Path, /, *, recipe: str = "default",
    settings: Mapping[str, Any] | None = None, device: str = "auto", data_dir: str | None = None, force: bool = False,
    message: Callable[[str], Any] = lambda sentence: None, **read: Unpack[ReadKeywords],
) -> list[dict[str, Any]]:  # fmt: skip
    """Train several methods on a source with the same rules for settings, each in the folder ``out/METHOD``, and
    compare them as `afgrl compare SOURCE --methods` does. Existing runs with the same settings are used. ``read`` are
    the options about files of ``load``."""
    options = with_keywords(ReadOptions(), read)
    specs = [
        RunSpec(absolute_source(str(source)), method, recipe, settings or {}, data_dir, read=options)
        for method in methods
    ]
    runs = fit_each(specs, Path(out), choose_device(device), force=force, message=message)
    return compare(runs, device=device, message=message)


def write_report(
    models: Model | Sequence[Model], out: str | Path, *, projection: str = "tsne",
    message: Callable[[str], Any] = lambda sentence: None,
) -> Path:  # fmt: skip
    """Write one HTML file that shows a run or a fitted estimator, or compares several; it opens without a network
    connection.

    ``projection`` is ``tsne``, ``pca`` or one that was stored by ``Run.save_projection``.
    """
    several = [models] if isinstance(models, (Run, MethodEstimator, str, Path)) else models
    _check_any(several)
    with as_runs(several) as runs:
        return write_page(runs, Path(out), projection=projection, message=message)


def _identity(name: str, run: Run) -> dict[str, Any]:
    return {
        "name": name, "dataset": run.data()["name"], "method": run.spec().method, "seed": complete_settings(run).seed,
    }  # fmt: skip


def _scores(run: Run, device: str, message: Callable[[str], Any]) -> dict[str, float]:
    """The mean scores; none without labels, or with too few for a split."""
    if not run.has_scores and run.labels()[0] is None:
        return {}
    if run.has_scores:
        scores = run.scores()
    else:
        chosen = choose_device(device)
        try:
            scores = evaluate_run(run, chosen, baselines=False, message=message)
        except UserError as reason:  # the other measures need no labels
            message(f"The scores are left out: {reason}")
            return {}
    tasks = scores["last-epoch"]
    return {
        f"{task} {score}": tasks[task][score]["mean"]
        for task, score, _ in (*COLUMNS, *READOUT_COLUMNS)
        if score in tasks.get(task, {})
    }


def _check_any(models: Sequence[Model]) -> None:
    if not models:
        raise UserError("A report needs at least one run.")
