"""The figure of the embedding width: AFGRL and the compared methods."""

from __future__ import annotations

from afgrl.reproduce import curves, paper, pictures
from afgrl.reproduce.result import PROTOCOLS, Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

WIDTHS, QUICK_WIDTHS = (32, 128, 512, 2048), (16, 32)
METHODS = ("afgrl", "bgrl", "gca", "grace")


def specs(scope: Scope) -> list[RunSpec]:
    return curves.specs(scope, scope.available(paper.DATASETS), compared(scope), "n_components", widths(scope))


def compared(scope: Scope) -> list[str]:
    return [name for name in METHODS if name in scope.methods]


def widths(scope: Scope) -> tuple[int, ...]:
    return QUICK_WIDTHS if scope.quick else WIDTHS


def result(scope: Scope, records: Records) -> Result:
    found = {
        (dataset, method, protocol): curves.curve(
            scope, records, dataset, method, "n_components", widths(scope), protocol
        )
        for dataset in scope.available(paper.DATASETS)
        for protocol in PROTOCOLS
        for method in compared(scope)
    }
    title = "Figure: accuracy against the embedding width D"
    drawn = {"dimension": lambda: curves.picture(found, "D", doubling=True)}
    notes = [
        *scope.missing_notes(paper.DATASETS),
        *scope.grid_notes,
        "Other widths (predictor, first layer) stay as published. The paper gives no numbers.",
        pictures.FRAME_NOTE,
    ]
    return Result(title, [curves.table(title, "D", found)], drawn, notes)
