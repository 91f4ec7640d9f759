"""Tables 2 to 4 share their runs: every method with its published settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afgrl import DEFAULT_METHOD
from afgrl.methods import available_methods
from afgrl.reproduce import paper
from afgrl.reproduce.layout import Column, Entry, Table, compared, comparison, over_seeds
from afgrl.reproduce.result import PROTOCOLS, Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

# Methods without training first, then the paper's order.
ORDER = ("raw", "hops", "svd", "ppr", "random", *(name for name in paper.ACCURACY if name != "raw"))

Published = Mapping[str, Sequence[Sequence[float] | None]]  # method → for each dataset, each score

SHORT_VECTORS = (
    "The paper's classifier takes 100 Adam steps on the raw vectors. That is too few if the vectors are short, like "
    "those of DGI, GMI, MVGRL, GRACE and GCA here."
)
NOTES = (
    "last-epoch: the last epoch. best-epoch: the epoch is chosen with labels, as in the paper. ± is the standard "
    "deviation over training seeds, or over splits or k-means fits if that is larger. `below` (▼): below the published "
    "value by more than ±.",
    "best-epoch chooses from one evaluation per sixth of the training and at least one every 500 epochs, so long runs, "
    "such as BGRL's, have more epochs to choose from.",
    "OOM: out of memory in the paper. `node_embedder`: the default embedding, whose settings depend on the graph.",
)


@dataclass(frozen=True)
class Metric:
    task: str
    name: str
    title: str
    digits: int


def specs(scope: Scope) -> list[RunSpec]:
    return [
        scope.spec(dataset, method, seed, recipe)
        for dataset in scope.available(paper.DATASETS)
        for method, recipe in rows(scope)
        for seed in range(scope.seeds if available_methods()[method].trains else 1)
    ]


def rows(scope: Scope) -> list[tuple[str, str]]:
    """Every method with the paper recipe, and the default embedding."""
    default = [(DEFAULT_METHOD, "default")] if DEFAULT_METHOD in scope.methods else []
    return [*((method, "paper") for method in _methods(scope)), *default]


def row_name(method: str, recipe: str) -> str:
    return method if recipe == "paper" or method == DEFAULT_METHOD else f"{method}, {recipe}"


def _methods(scope: Scope) -> list[str]:
    """Those of the paper and others; the methods since the paper have a table of their own (since.py)."""
    known = [*ORDER, *(name for name in available_methods() if name not in (*ORDER, *paper.SINCE, DEFAULT_METHOD))]
    return [name for name in known if name in scope.methods]


def result(title: str, scope: Scope, records: Records, scores: Sequence[Metric], published: Published) -> Result:
    """One table per dataset and score; ``published`` has the scores of a method in the order of ``scores``."""
    tables = [
        _table(dataset, scope, records, score, published, i)
        for dataset in scope.available(paper.DATASETS)
        for i, score in enumerate(scores)
    ]
    return Result(title, tables, notes=[*scope.missing_notes(paper.DATASETS), *NOTES])


def published_value(published: Published, dataset: str, method: str, i: int = 0) -> Entry:
    if dataset not in paper.DATASETS or method not in published:
        return None
    values = published[method][paper.DATASETS.index(dataset)]
    return "OOM" if values is None else values[i]


def _table(dataset: str, scope: Scope, records: Records, score: Metric, published: Published, i: int) -> Table:
    columns = [Column("method"), Column("published", score.digits)]
    columns += [column for protocol in PROTOCOLS for column in compared(protocol, score.digits)]
    table_rows = []
    for method, recipe in rows(scope):
        found = seeds_of(records, scope, dataset, method, recipe=recipe)
        if not found:
            continue
        known = published_value(published, dataset, method, i)
        row: list[Entry] = [row_name(method, recipe), known]
        for protocol in PROTOCOLS:
            ours = over_seeds([record[protocol][score.task][score.name] for record in found])
            row += comparison(known if isinstance(known, float) else None, *ours)
        table_rows.append(row)
    return Table(f"{dataset}, {score.title}", columns, table_rows)
