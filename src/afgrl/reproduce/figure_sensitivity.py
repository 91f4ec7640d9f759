"""The figure of AFGRL's two settings: k, the number of neighbors, and M, the number of k-means runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from afgrl.reproduce import curves, paper
from afgrl.reproduce.result import PROTOCOLS, Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

VALUES = {"n_neighbors": (2, 4, 8, 16, 32), "n_restarts": (1, 2, 5, 10)}
QUICK_VALUES = {"n_neighbors": (2, 4), "n_restarts": (1, 2)}
SYMBOLS = {"n_neighbors": "k", "n_restarts": "M"}  # of the paper


def specs(scope: Scope) -> list[RunSpec]:
    if "afgrl" not in scope.methods:
        return []
    datasets = scope.available(paper.DATASETS)
    return [
        spec
        for setting, chosen in values(scope)
        for spec in curves.specs(scope, datasets, ["afgrl"], setting, chosen)
    ]  # fmt: skip


def values(scope: Scope) -> list[tuple[str, tuple[int, ...]]]:
    return list((QUICK_VALUES if scope.quick else VALUES).items())


def result(scope: Scope, records: Records) -> Result:
    tables, drawn = [], dict[str, Callable[[], Figure]]()
    for setting, chosen in values(scope):
        found = {
            (dataset, "afgrl", protocol): curves.curve(scope, records, dataset, "afgrl", setting, chosen, protocol)
            for dataset in scope.available(paper.DATASETS)
            for protocol in PROTOCOLS
        }
        symbol = SYMBOLS[setting]
        tables.append(curves.table(f"AFGRL against {symbol}", symbol, found))
        drawn[f"sensitivity-{symbol}"] = partial(curves.picture, found, symbol, doubling=True)
    notes = [
        *scope.missing_notes(paper.DATASETS),
        *scope.evaluations_notes,
        "The paper gives no numbers; its curves are best at k = 4 and at M > 1, and nearly flat in M.",
    ]
    return Result("Figure: sensitivity to k and M", tables, drawn, notes)
