"""The figure of the embedding's width: AFGRL and the compared methods."""

from __future__ import annotations

from afgrl.reproduce import curves, paper, pictures
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.result import PROTOCOLS, Records, Result, Scope

WIDTHS, QUICK_WIDTHS = (32, 128, 512, 2048), (16, 32)
METHODS = ("afgrl", "bgrl", "gca", "grace")


def cells(scope: Scope) -> list[Cell]:
    return curves.cells(scope, scope.at_hand(paper.DATASETS), chosen(scope), "n_components", widths(scope))


def chosen(scope: Scope) -> list[str]:
    return [name for name in METHODS if name in scope.methods]


def widths(scope: Scope) -> tuple[int, ...]:
    return QUICK_WIDTHS if scope.quick else WIDTHS


def result(scope: Scope, records: Records) -> Result:
    found = {
        (dataset, method, protocol): curves.curve(
            scope, records, dataset, method, "n_components", widths(scope), protocol
        )
        for dataset in scope.at_hand(paper.DATASETS)
        for protocol in PROTOCOLS
        for method in chosen(scope)
    }
    title = "Figure: accuracy against the width D of the embedding"
    drawn = {"dimension": lambda: curves.picture(found, "D", doubling=True)}
    notes = [
        *scope.absent(paper.DATASETS),
        *scope.grid_notes,
        "Other widths (predictor, first layer) stay as published. The paper gives no numbers.",
        pictures.FRAME_NOTE,
    ]
    return Result(title, [curves.table(title, "D", found)], drawn, notes)
