"""What the figures of accuracy against one setting share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from afgrl.reproduce import pictures
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

Curve = list[tuple[Any, float, float]]  # value of the setting, accuracy, spread
Curves = dict[tuple[str, str, str], Curve]  # by dataset, method and protocol


def specs(
    scope: Scope, datasets: Sequence[str], methods: Sequence[str], setting: str, values: Sequence[Any]
) -> list[RunSpec]:
    return [
        scope.grid.spec(dataset, method, seed, **scope.grid_settings(method), **{setting: value})
        for dataset in datasets
        for method in methods
        for value in values
        for seed in range(scope.grid.seeds)
    ]


def curve(
    scope: Scope, records: Records, dataset: str, method: str, setting: str, values: Sequence[Any], protocol: str
) -> Curve:
    """Accuracy against the values of a setting; values without a run are left out."""
    points = []
    for value in values:
        found = seeds_of(records, scope.grid, dataset, method, **scope.grid_settings(method), **{setting: value})
        if found:
            points.append((value, *over_seeds([record[protocol]["classification"]["accuracy"] for record in found])))
    return points


def table(title: str, setting: str, curves: Curves) -> Table:
    columns = [
        Column("dataset"), Column("method"), Column("protocol"), Column(setting), Column("accuracy %", 2),
        Column("±", 2),
    ]  # fmt: skip
    rows: list[list[Entry]] = [
        [*names, str(value), mean, spread] for names, points in curves.items() for value, mean, spread in points
    ]
    return Table(title, columns, rows)


def picture(curves: Curves, label: str, *, doubling: bool) -> Figure:
    """One panel per dataset and protocol, one line per method."""
    panels = list(dict.fromkeys((dataset, protocol) for dataset, _, protocol in curves))
    methods = list(dict.fromkeys(method for _, method, _ in curves))
    figure, axes = pictures.panels(len(panels))
    for ax, (dataset, protocol) in zip(axes, panels, strict=True):
        for i, method in enumerate(methods):
            points = curves.get((dataset, method, protocol), [])
            if points:
                x, y, spread = zip(*points, strict=True)
                pictures.line(ax, i, x, y, method, spread)
        pictures.frame(ax)
        if doubling:
            pictures.doubling(ax, sorted({value for points in curves.values() for value, _, _ in points}))
        ax.set_title(f"{dataset}, {protocol}", fontsize=9)
        ax.set_xlabel(label, fontsize=8)
        ax.set_ylabel("accuracy %", fontsize=8)
    figure.align_ylabels()
    if len(methods) > 1:
        pictures.legend(figure)
    return figure
