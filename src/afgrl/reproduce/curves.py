"""Figures of a score against one setting share all but the setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from afgrl.reproduce import pictures
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Scope, seeds_of

Curve = list[tuple[Any, float, float]]  # value, accuracy, spread


def cells(
    scope: Scope, datasets: Sequence[str], methods: Sequence[str], setting: str, values: Sequence[Any]
) -> list[Cell]:
    return [
        scope.grid.cell(dataset, method, seed, **scope.in_grid(method), **{setting: value})
        for dataset in datasets
        for method in methods
        for value in values
        for seed in range(scope.grid.seeds)
    ]


def curve(
    scope: Scope, records: Records, dataset: str, method: str, setting: str, values: Sequence[Any], protocol: str
) -> Curve:
    """Accuracy against the values of a setting, those of which there is a training."""
    points = []
    for value in values:
        found = seeds_of(records, scope.grid, dataset, method, **scope.in_grid(method), **{setting: value})
        if found:
            points.append((value, *over_seeds([record[protocol]["classification"]["accuracy"] for record in found])))
    return points


def table(title: str, setting: str, curves: dict[tuple[str, str, str], Curve]) -> Table:
    """Of curves by dataset, method and protocol."""
    columns = [
        Column("dataset"),
        Column("method"),
        Column("protocol"),
        Column(setting),
        Column("accuracy %", 2),
        Column("±", 2),
    ]
    rows: list[list[Entry]] = [
        [*names, str(value), mean, spread] for names, points in curves.items() for value, mean, spread in points
    ]
    return Table(title, columns, rows)


def picture(curves: dict[tuple[str, str, str], Curve], label: str, *, doubling: bool) -> Figure:
    """A panel for each dataset and protocol, a line for each method."""
    places = list(dict.fromkeys((dataset, protocol) for dataset, _, protocol in curves))
    methods = list(dict.fromkeys(method for _, method, _ in curves))
    figure, axes = pictures.panels(len(places))
    for ax, (dataset, protocol) in zip(axes, places, strict=True):
        for place, method in enumerate(methods):
            points = curves.get((dataset, method, protocol), [])
            if points:
                x, y, spread = zip(*points, strict=True)
                pictures.line(ax, place, x, y, method, spread)
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
