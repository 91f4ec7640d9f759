"""Table 1: sensitivity to the augmentation, and for comparison the sensitivity of AFGRL to its own settings."""

from __future__ import annotations

import itertools
from typing import Any

from afgrl.reproduce import paper
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import PROTOCOLS, Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

AUGMENTED = ("bgrl", "gca")
# Drop rates of edges and of features, the same in both views: the corners of 0 to .5 and the middle.
RATES = ((0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5), (0.25, 0.25))
QUICK_RATES = ((0.0, 0.5), (0.5, 0.0))
# One change at a time from the published settings, which are in the grid too.
AFGRL: dict[str, tuple[Any, ...]] = {
    "n_neighbors": (2, 8, 16),
    "n_clusters": (50, 200),
    "n_restarts": (1, 10),
    "n_components": (128, 512),
    "learning_rate": (0.0005, 0.002),
    "epochs": (1000, 4000),
}
QUICK_AFGRL: dict[str, tuple[Any, ...]] = {"n_neighbors": (2, 4), "n_restarts": (1, 2)}
TASKS = (("classification", "accuracy"), ("clustering", "nmi"))


def specs(scope: Scope) -> list[RunSpec]:
    return [
        scope.grid.spec(dataset, method, seed, **settings)
        for dataset in scope.available(paper.SENSITIVITY_DATASETS)
        for method in (*AUGMENTED, "afgrl")
        if method in scope.methods
        for settings in _grid(scope, method)
        for seed in range(scope.grid.seeds)
    ]


def _grid(scope: Scope, method: str) -> list[dict[str, Any]]:
    if method == "afgrl":
        grid = QUICK_AFGRL if scope.quick else AFGRL
        return [{}, *({name: value} for name, values in grid.items() for value in values)]
    return [
        scope.grid_settings(method)
        | {"drop_edges_1": edges, "drop_edges_2": edges, "drop_features_1": features, "drop_features_2": features}
        for edges, features in (QUICK_RATES if scope.quick else RATES)
    ]


def result(scope: Scope, records: Records) -> Result:
    datasets = scope.available(paper.SENSITIVITY_DATASETS)
    columns = [Column("task"), Column("method"), Column("protocol")]
    for dataset in datasets:
        columns += [Column(f"{dataset} published", 2, signed=True), Column(dataset, 2, signed=True)]
    rows: list[list[Entry]] = []
    for (task, score), method in itertools.product(TASKS, (*AUGMENTED, "afgrl")):
        for protocol in PROTOCOLS if method in scope.methods else ():
            row: list[Entry] = [task, method, protocol]
            for dataset in datasets:
                row += [
                    _published(task, method, dataset),
                    _loss(scope, records, dataset, method, protocol, task, score),
                ]
            rows.append(row)
    title = "Table 1: sensitivity to augmentation"
    return Result(title, [Table(title, columns, rows)], notes=_notes(scope))


def _notes(scope: Scope) -> list[str]:
    rates = ", ".join(f"{edges}/{features}" for edges, features in (QUICK_RATES if scope.quick else RATES))
    grid = "; ".join(
        f"{name} {', '.join(map(str, values))}" for name, values in (QUICK_AFGRL if scope.quick else AFGRL).items()
    )
    return [
        *scope.missing_notes(paper.SENSITIVITY_DATASETS),
        "Each value is -(best - worst) / best in percent.",
        f"BGRL and GCA: drop rates of edges/features are {rates}, the same in both views.",
        *scope.grid_notes,
        f"AFGRL, which has no drop rates: the published settings, with one of them changed at a time: {grid}.",
    ]


def _published(task: str, method: str, dataset: str) -> Entry:
    if method not in paper.SENSITIVITY[task] or dataset not in paper.SENSITIVITY_DATASETS:
        return None
    value = paper.SENSITIVITY[task][method][paper.SENSITIVITY_DATASETS.index(dataset)]
    return "OOM" if value is None else value


def _loss(
    scope: Scope, records: Records, dataset: str, method: str, protocol: str, task: str, score: str
) -> float | None:
    """-(best - worst) / best over the grid, percent; None if a part of the grid, and so maybe the worst, is missing."""
    means, grid = [], _grid(scope, method)
    for settings in grid:
        found = seeds_of(records, scope.grid, dataset, method, **settings)
        if found:
            means.append(over_seeds([record[protocol][task][score] for record in found])[0])
    return -100 * (max(means) - min(means)) / max(means) if len(means) == len(grid) else None
