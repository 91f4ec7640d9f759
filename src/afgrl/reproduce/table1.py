"""Table 1: how much the choice of augmentation matters, and beside it how much AFGRL's own settings do."""

from __future__ import annotations

import itertools
from typing import Any

from afgrl.reproduce import paper
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, Scope, seeds_of

AUGMENTED = ("bgrl", "gca")
# Of edges and of features, the same in both views: the corners of 0 to .5 and the middle.
RATES = ((0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5), (0.25, 0.25))
QUICK_RATES = ((0.0, 0.5), (0.5, 0.0))
# One at a time around the published settings, which are in the grid too.
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


def cells(scope: Scope) -> list[Cell]:
    return [
        scope.grid.cell(dataset, method, seed, **settings)
        for dataset in scope.at_hand(paper.SENSITIVITY_DATASETS)
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
        scope.in_grid(method)
        | {"drop_edges_1": edges, "drop_edges_2": edges, "drop_features_1": features, "drop_features_2": features}
        for edges, features in (QUICK_RATES if scope.quick else RATES)
    ]


def result(scope: Scope, records: Records) -> Result:
    datasets = scope.at_hand(paper.SENSITIVITY_DATASETS)
    columns = [Column("task"), Column("method"), Column("protocol")]
    for dataset in datasets:
        columns += [Column(f"{dataset} published", 2, signed=True), Column(dataset, 2, signed=True)]
    rows: list[list[Entry]] = []
    for (task, leaf), method in itertools.product(TASKS, (*AUGMENTED, "afgrl")):
        for protocol in ("label-free", "paper") if method in scope.methods else ():
            row: list[Entry] = [task, method, protocol]
            for dataset in datasets:
                row += [_published(task, method, dataset), _fall(scope, records, dataset, method, protocol, task, leaf)]
            rows.append(row)
    rates = ", ".join(f"{edges}/{features}" for edges, features in (QUICK_RATES if scope.quick else RATES))
    grid = "; ".join(
        f"{name} {', '.join(map(str, values))}" for name, values in (QUICK_AFGRL if scope.quick else AFGRL).items()
    )
    notes = [
        *scope.absent(paper.SENSITIVITY_DATASETS),
        "Each value is -(best - worst) / best in percent.",
        f"BGRL and GCA: edges/features are dropped at rates {rates}, the same in both views.",
        *scope.grid_notes,
        f"AFGRL, which drops nothing: the published settings, and one of them changed at a time: {grid}.",
    ]
    title = "Table 1: sensitivity to augmentation"
    return Result(title, [Table(title, columns, rows)], notes=notes)


def _published(task: str, method: str, dataset: str) -> Entry:
    if method not in paper.SENSITIVITY[task] or dataset not in paper.SENSITIVITY_DATASETS:
        return None
    value = paper.SENSITIVITY[task][method][paper.SENSITIVITY_DATASETS.index(dataset)]
    return "OOM" if value is None else value


def _fall(
    scope: Scope, records: Records, dataset: str, method: str, protocol: str, task: str, leaf: str
) -> float | None:
    """How much worse the worst of the grid is than the best, percent; of a part of the grid it would be too little."""
    means, grid = [], _grid(scope, method)
    for settings in grid:
        found = seeds_of(records, scope.grid, dataset, method, **settings)
        if found:
            means.append(over_seeds([record[protocol][task][leaf] for record in found])[0])
    return -100 * (max(means) - min(means)) / max(means) if len(means) == len(grid) else None
