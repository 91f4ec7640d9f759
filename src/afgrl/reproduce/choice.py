"""What it gives to pick the epoch with labels: the paper's scores at the last epoch, at the one picked, and between."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from afgrl.methods import methods
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.reproduce import overview, paper, pictures, scores
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.looks import Record
from afgrl.reproduce.result import Records, Result, Scope, seeds_of

DRAWN = ("afgrl", "bgrl", "gca", "grace")


def cells(scope: Scope) -> list[Cell]:
    return [cell for cell in scores.cells(scope) if cell.method in _chosen(scope) and cell.recipe == "paper"]


def _chosen(scope: Scope) -> list[str]:
    """The methods that train, and not with labels."""
    return [name for name in scope.methods if methods()[name].trains and name != SupervisedGCNMethod.name]


def result(scope: Scope, records: Records) -> Result:
    notes = [
        *scope.absent(paper.DATASETS),
        "Both columns are the paper's protocol; they differ in the epoch alone. The epoch of a classifier is picked by "
        "validation accuracy, that of clusters and of similar nodes by the score that is reported, on all labels.",
        pictures.FRAME_NOTE,
    ]
    datasets = scope.at_hand(paper.DATASETS)
    found = {
        (dataset, method): looked
        for dataset in datasets
        for method in _chosen(scope)
        if (looked := [each for each in seeds_of(records, scope, dataset, method) if "looks" in each])
    }
    n_records = sum(len(seeds_of(records, scope, *place)) for place in itertools.product(datasets, _chosen(scope)))
    if n_old := n_records - sum(map(len, found.values())):
        notes.append(f"{n_old} of {n_records} trainings were made before looks were kept, and are not in the tables.")
    tables = [_table(found, score, published) for score, published in overview.SCORES] if found else []
    drawn: dict[str, Callable[[], Figure]] = {
        f"choice-{score.task}": partial(_picture, found, score)
        for score, _ in overview.SCORES
        if any(method in DRAWN for _, method in found)
    }
    return Result("What picking the epoch with labels gives", tables, drawn, notes)


def _table(found: dict[tuple[str, str], list[Record]], score: scores.Score, published: scores.Published) -> Table:
    digits = score.digits
    columns = [
        Column("dataset"), Column("method"), Column("published", digits), Column("last epoch", digits),
        Column("picked epoch", digits), Column("gain", digits, signed=True), Column("which"),
    ]  # fmt: skip
    rows: list[list[Entry]] = []
    for (dataset, method), records in found.items():
        last = sum(record["looks"][-1][score.name] for record in records) / len(records)
        picked, _ = over_seeds([record["paper"][score.task][score.name] for record in records])
        known = scores.published_value(published, dataset, method)
        rows.append([dataset, method, known, last, picked, picked - last, _epochs(records, score.task)])
    return Table(score.title, columns, rows)


def _epochs(records: list[Record], task: str) -> str:
    return f"{', '.join(str(record['paper'][task]['epoch']) for record in records)} of {records[0]['epochs']}"


def _picture(found: dict[tuple[str, str], list[Record]], score: scores.Score) -> Figure:
    """A panel for each dataset, a line for each method: the score as training goes on, of the first seed."""
    datasets = list(dict.fromkeys(dataset for dataset, method in found if method in DRAWN))
    figure, axes = pictures.panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for place, method in enumerate(DRAWN):
            for record in found.get((dataset, method), [])[:1]:
                shares = [100 * look["epoch"] / record["epochs"] for look in record["looks"]]
                pictures.line(ax, place, shares, [look[score.name] for look in record["looks"]], method)
        if score.task == "classification":
            pictures.frame(ax)
        ax.set_title(dataset, fontsize=9)
        ax.set_xlabel("% of the training", fontsize=8)
        ax.set_ylabel(score.title, fontsize=8)
    pictures.legend(figure)
    return figure
