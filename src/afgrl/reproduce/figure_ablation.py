"""The figure of what makes a positive: nearest, adjacent, in the same cluster."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from afgrl.reproduce import curves, paper, pictures
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.result import PROTOCOLS, Records, Result, Scope

RULES = {
    "knn": "k-NN", "knn+adj": "k-NN + Adj", "knn+clusters": "k-NN + Clus", "clusters": "Clus", "all": "all",
}  # fmt: skip


def cells(scope: Scope) -> list[Cell]:
    if "afgrl" not in scope.methods:
        return []
    return curves.cells(scope, scope.at_hand(paper.DATASETS), ["afgrl"], "positives", list(RULES))


def result(scope: Scope, records: Records) -> Result:
    found = {
        (dataset, "afgrl", protocol): curves.curve(scope, records, dataset, "afgrl", "positives", list(RULES), protocol)
        for dataset in scope.at_hand(paper.DATASETS)
        for protocol in PROTOCOLS
    }
    title = "Figure: ablation of the positives"
    notes = [
        *scope.absent(paper.DATASETS),
        *scope.looks_notes,
        "The paper shows Computers and WikiCS, and gives no numbers.",
    ]
    return Result(title, [curves.table(title, "positives", found)], {"ablation": lambda: _picture(found)}, notes)


def _picture(found: dict[tuple[str, str, str], curves.Curve]) -> Figure:
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in found))
    figure, axes = pictures.panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for place, protocol in enumerate(PROTOCOLS):
            points = found[dataset, "afgrl", protocol]
            x = np.array([list(RULES).index(rule) for rule, _, _ in points])
            means, spread = [mean for _, mean, _ in points], [each for _, _, each in points]
            # Points, not bars: the differences are small, and a bar must begin at 0.
            ax.errorbar(
                x + 0.12 * (2 * place - 1), means, yerr=spread, fmt=pictures.MARKERS[place], capsize=3, markersize=6,
                color=pictures.COLORS[place], label=protocol,
            )  # fmt: skip
        ax.set_xticks(range(len(RULES)), list(RULES.values()), rotation=20, ha="right")
        ax.set_title(dataset, fontsize=9)
        ax.set_ylabel("accuracy %", fontsize=8)
    pictures.legend(figure)
    return figure
