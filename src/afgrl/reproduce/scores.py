"""The paper's three tables of scores share their trainings: every method with its published settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afgrl.methods import methods
from afgrl.reproduce import paper
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Column, Entry, Table, compared, comparison, over_seeds
from afgrl.reproduce.result import PROTOCOLS, Records, Result, Scope, seeds_of

# What needs no training first, then as the paper orders them.
ORDER = ("raw", "hops", "random", *(name for name in paper.ACCURACY if name != "raw"))

Published = Mapping[str, Sequence[Sequence[float] | None]]  # of a method: for each dataset, each score


@dataclass(frozen=True)
class Score:
    task: str
    name: str
    title: str
    digits: int


def cells(scope: Scope) -> list[Cell]:
    return [
        scope.cell(dataset, method, seed, recipe)
        for dataset in scope.at_hand(paper.DATASETS)
        for method, recipe in rows(scope)
        for seed in range(scope.seeds if methods()[method].trains else 1)
    ]


def rows(scope: Scope) -> list[tuple[str, str]]:
    """Every method with its published settings, and AFGRL with ours for a graph nobody has seen."""
    ours = [("afgrl", "default")] if "afgrl" in scope.methods else []
    return [*((method, "paper") for method in _methods(scope)), *ours]


def _methods(scope: Scope) -> list[str]:
    known = [*ORDER, *(name for name in methods() if name not in ORDER)]
    return [name for name in known if name in scope.methods]


def result(title: str, scope: Scope, records: Records, scores: Sequence[Score], published: Published) -> Result:
    """A table for each dataset and score; ``published`` has the scores of a method in the order of ``scores``."""
    tables = [
        _table(dataset, scope, records, score, published, place)
        for dataset in scope.at_hand(paper.DATASETS)
        for place, score in enumerate(scores)
    ]
    return Result(title, tables, notes=[*scope.absent(paper.DATASETS), *NOTES])


SHORT_VECTORS = (
    "The paper's classifier takes 100 steps of Adam on the vectors as they are, which is too few where they are short, "
    "as those of DGI, GMI, MVGRL, GRACE and GCA are here."
)
NOTES = (
    "Label-free: the last epoch. Paper protocol: the epoch is picked with labels. ± is the spread over training seeds, "
    "or over splits or clusterings where that is larger; `below` (▼): below the published value by more than it.",
    "The paper protocol looks at every sixth of a training and at least every 500 epochs, so that long trainings, such "
    "as BGRL's, have more epochs to pick from.",
    "OOM: out of memory in the paper. `afgrl, default`: with the settings that follow the graph, not the paper's.",
)


def published_value(published: Published, dataset: str, method: str, place: int = 0) -> Entry:
    if dataset not in paper.DATASETS or method not in published:
        return None
    values = published[method][paper.DATASETS.index(dataset)]
    return "OOM" if values is None else values[place]


def _table(dataset: str, scope: Scope, records: Records, score: Score, published: Published, place: int) -> Table:
    columns = [Column("method"), Column("published", score.digits)]
    columns += [*compared("label-free", score.digits), *compared("paper protocol", score.digits)]
    shown = []
    for method, recipe in rows(scope):
        found = seeds_of(records, scope, dataset, method, recipe=recipe)
        if not found:
            continue
        known = published_value(published, dataset, method, place)
        row: list[Entry] = [method if recipe == "paper" else f"{method}, {recipe}", known]
        for protocol in PROTOCOLS:
            ours = over_seeds([record[protocol][score.task][score.name] for record in found])
            row += comparison(known if isinstance(known, float) else None, *ours)
        shown.append(row)
    return Table(f"{dataset}, {score.title}", columns, shown)
