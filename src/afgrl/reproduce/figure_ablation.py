"""The figure of the ablation of positives: nearest, adjacent, in the same cluster."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from afgrl.reproduce import curves, paper, pictures
from afgrl.reproduce.result import PROTOCOLS, Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

RULES = {
    "knn": "k-NN", "knn+adj": "k-NN + Adj", "knn+clusters": "k-NN + Clus", "clusters": "Clus", "all": "all",
}  # fmt: skip


def specs(scope: Scope) -> list[RunSpec]:
    if "afgrl" not in scope.methods:
        return []
    return curves.specs(scope, scope.available(paper.DATASETS), ["afgrl"], "positives", list(RULES))


def result(scope: Scope, records: Records) -> Result:
    found = {
        (dataset, "afgrl", protocol): curves.curve(scope, records, dataset, "afgrl", "positives", list(RULES), protocol)
        for dataset in scope.available(paper.DATASETS)
        for protocol in PROTOCOLS
    }
    title = "Figure: ablation of the positives"
    notes = [
        *scope.missing_notes(paper.DATASETS),
        *scope.evaluations_notes,
        "The paper shows Computers and WikiCS and gives no numbers.",
    ]
    return Result(title, [curves.table(title, "positives", found)], {"ablation": lambda: _picture(found)}, notes)


def _picture(found: curves.Curves) -> Figure:
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in found))
    figure, axes = pictures.panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for i, protocol in enumerate(PROTOCOLS):
            points = found[dataset, "afgrl", protocol]
            x = np.array([list(RULES).index(rule) for rule, _, _ in points])
            means, spread = [mean for _, mean, _ in points], [each for _, _, each in points]
            # Points, not bars: the differences are small, and bars must start at 0.
            ax.errorbar(
                x + 0.12 * (2 * i - 1), means, yerr=spread, fmt=pictures.MARKERS[i], capsize=3, markersize=6,
                color=pictures.COLORS[i], label=protocol,
            )  # fmt: skip
        ax.set_xticks(range(len(RULES)), list(RULES.values()), rotation=20, ha="right")
        ax.set_title(dataset, fontsize=9)
        ax.set_ylabel("accuracy %", fontsize=8)
    pictures.legend(figure)
    return figure
