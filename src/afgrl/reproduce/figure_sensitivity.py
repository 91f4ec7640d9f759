"""The figure of AFGRL's two settings: k, the nearest neighbors, and M, the clusterings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from afgrl.reproduce import curves, paper
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.result import PROTOCOLS, Records, Result, Scope

VALUES = {"n_neighbors": (2, 4, 8, 16, 32), "n_restarts": (1, 2, 5, 10)}
QUICK_VALUES = {"n_neighbors": (2, 4), "n_restarts": (1, 2)}
LETTERS = {"n_neighbors": "k", "n_restarts": "M"}


def cells(scope: Scope) -> list[Cell]:
    if "afgrl" not in scope.methods:
        return []
    return [cell for setting, chosen in values(scope) for cell in _cells(scope, setting, chosen)]


def _cells(scope: Scope, setting: str, values: tuple[int, ...]) -> list[Cell]:
    return curves.cells(scope, scope.at_hand(paper.DATASETS), ["afgrl"], setting, values)


def values(scope: Scope) -> list[tuple[str, tuple[int, ...]]]:
    return list((QUICK_VALUES if scope.quick else VALUES).items())


def result(scope: Scope, records: Records) -> Result:
    tables, made = [], dict[str, Callable[[], Figure]]()
    for setting, chosen in values(scope):
        found = {
            (dataset, "afgrl", protocol): curves.curve(scope, records, dataset, "afgrl", setting, chosen, protocol)
            for dataset in scope.at_hand(paper.DATASETS)
            for protocol in PROTOCOLS
        }
        letter = LETTERS[setting]
        tables.append(curves.table(f"AFGRL against {letter}", letter, found))
        made[f"sensitivity-{letter}"] = partial(curves.picture, found, letter, doubling=True)
    said = "The paper gives no numbers: k = 4 and M > 1 are best, all M about alike."
    notes = [*scope.absent(paper.DATASETS), *scope.looks_notes, said]
    return Result("Figure: sensitivity to k and M", tables, made, notes)
