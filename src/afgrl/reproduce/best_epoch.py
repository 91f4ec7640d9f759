"""The gain of choosing the epoch with labels: best-epoch scores beside those of the last epoch, and the curves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from afgrl.experiment.cache import Record
from afgrl.methods import available_methods
from afgrl.reproduce import overview, paper, pictures, scores
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

DRAWN = ("afgrl", "bgrl", "gca", "grace")
Found = dict[tuple[str, str], list[Record]]  # (dataset, method) → one record per seed


def specs(scope: Scope) -> list[RunSpec]:
    wanted = self_supervised(scope)
    return [spec for spec in scores.specs(scope) if spec.method in wanted and spec.recipe == "paper"]


def self_supervised(scope: Scope) -> list[str]:
    """The methods that train without labels."""
    known = available_methods()
    return [name for name in scope.methods if known[name].trains and not known[name].needs_labels]


def result(scope: Scope, records: Records) -> Result:
    notes = [
        *scope.missing_notes(paper.DATASETS),
        "Both columns use the measures of best-epoch evaluation and differ only in the epoch. For classification, the "
        "epoch is chosen by validation accuracy; for clustering and similarity, by the reported score on all labels.",
        pictures.FRAME_NOTE,
    ]
    found: Found = {
        (dataset, method): own
        for dataset in scope.available(paper.DATASETS)
        for method in self_supervised(scope)
        if (own := seeds_of(records, scope, dataset, method))
    }
    tables = [_table(found, score, published) for score, published in overview.SCORES] if found else []
    drawn: dict[str, Callable[[], Figure]] = {
        f"best-epoch-{score.task}": partial(draw, found, score)
        for score, _ in overview.SCORES
        if any(method in DRAWN for _, method in found)
    }
    return Result("Gain of choosing the epoch with labels", tables, drawn, notes)


def _table(found: Found, score: scores.Metric, published: scores.Published) -> Table:
    digits = score.digits
    columns = [
        Column("dataset"), Column("method"), Column("published", digits), Column("last epoch", digits),
        Column("best epoch", digits), Column("gain", digits, signed=True), Column("epoch chosen"),
    ]  # fmt: skip
    rows: list[list[Entry]] = []
    for (dataset, method), records in found.items():
        last = sum(record["evaluations"][-1][score.name] for record in records) / len(records)
        best, _ = over_seeds([record["best-epoch"][score.task][score.name] for record in records])
        known = scores.published_value(published, dataset, method)
        rows.append([dataset, method, known, last, best, best - last, _epochs(records, score.task)])
    return Table(score.title, columns, rows)


def _epochs(records: list[Record], task: str) -> str:
    return f"{', '.join(str(record['best-epoch'][task]['epoch']) for record in records)} of {records[0]['epochs']}"


def draw(found: Found, score: scores.Metric) -> Figure:
    """One panel per dataset, one line per method: the score of the first seed during training."""
    datasets = list(dict.fromkeys(dataset for dataset, method in found if method in DRAWN))
    figure, axes = pictures.panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for i, method in enumerate(DRAWN):
            for record in found.get((dataset, method), [])[:1]:
                evaluations = record["evaluations"]
                shares = [100 * each["epoch"] / record["epochs"] for each in evaluations]
                pictures.line(ax, i, shares, [each[score.name] for each in evaluations], method)
        if score.task == "classification":
            pictures.frame(ax)
        ax.set_title(dataset, fontsize=9)
        ax.set_xlabel("% of the training", fontsize=8)
        ax.set_ylabel(score.title, fontsize=8)
    pictures.legend(figure)
    return figure
