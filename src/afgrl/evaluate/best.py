"""Which vectors are best in a table of scores, by how much, and whether that is more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from afgrl.evaluate.columns import ScoreColumn

NOISE = 2  # spreads of a difference: beyond it, about one split in forty shows the opposite
MARK = "*"  # of the best value of a column


class Lead(NamedTuple):
    """How far the best vectors are ahead of others in one score."""

    best: str
    other: str
    difference: float
    spread: float | None  # of the difference over splits or k-means fits; None if it was measured once
    on_same: int  # splits that both were measured on; 0 if their values are not of the same splits

    @property
    def is_noise(self) -> bool:
        return self.spread is not None and self.difference <= NOISE * self.spread


def lead(values: Mapping[str, Sequence[float]], against: str | None = None, *, paired: bool) -> Lead:
    """The vectors with the highest mean beside the next best ones; beside ``against`` if that is not the best. With
    ``paired``, the values of all vectors are of the same splits in the same order."""
    ranked = sorted(values, key=lambda name: -statistics.fmean(values[name]))
    best, other = ranked[0], ranked[1]
    if against in values and against != best:
        other = str(against)
    a, b = values[best], values[other]
    difference = statistics.fmean(a) - statistics.fmean(b)
    if min(len(a), len(b)) < 2:
        return Lead(best, other, difference, None, 0)
    if paired and len(a) == len(b):
        return Lead(best, other, difference, statistics.stdev(x - y for x, y in zip(a, b, strict=True)), len(a))
    return Lead(best, other, difference, math.sqrt(statistics.variance(a) + statistics.variance(b)), 0)


def leads(
    scores: Mapping[str, Mapping[str, Any]], columns: Sequence[ScoreColumn], against: str | None = None, *,
    same_splits: bool = True,
) -> list[tuple[ScoreColumn, Lead]]:  # fmt: skip
    """Of the first column of each task for which several vectors have values. ``scores``: name of vectors → task →
    score, as in scores.json."""
    first_of_task: dict[str, ScoreColumn] = {}
    for column in columns:
        first_of_task.setdefault(column.task, column)
    found = []
    for column in first_of_task.values():
        values = {
            name: parts[column.task][column.name]["values"]
            for name, parts in scores.items()
            if column.name in parts.get(column.task, {})
        }
        if len(values) > 1:
            paired = same_splits and column.task == "classification"
            found.append((column, lead(values, against, paired=paired)))
    return found


def sentence(found: Sequence[tuple[ScoreColumn, Lead]], titles: Mapping[str, str]) -> str:
    return f"Best {'; best '.join(_said(column, lead, titles) for column, lead in found)}."


def _said(column: ScoreColumn, lead: Lead, titles: Mapping[str, str]) -> str:
    best, other = (titles.get(name, name) for name in (lead.best, lead.other))
    score, difference = column.title.removesuffix(" %"), f"{lead.difference:.{column.digits}f}"
    if float(difference) == 0:
        return f"{score}: {best}, equal to {other}"
    if lead.spread is None:
        return f"{score}: {best}, {difference} above {other} (measured once)"
    splits = f" on the same {lead.on_same} splits" if lead.on_same else ""
    noise = "within noise" if lead.is_noise else "more than noise"
    return f"{score}: {best}, {difference} ± {lead.spread:.{column.digits}f} above {other}{splits} ({noise})"


def best_of_columns(cells: Sequence[Sequence[str]]) -> list[list[bool]]:
    """Which cells of a table of numbers have the best value of their column as it is shown; none in a table with one
    row, nor in a column with less than two numbers."""
    numbers = [[_number(cell) for cell in row] for row in cells]
    tops = []
    for column in zip(*numbers, strict=True):
        known = [value for value in column if value is not None]
        tops.append(max(known) if len(known) > 1 else None)
    return [[value is not None and value == top for value, top in zip(row, tops, strict=True)] for row in numbers]


def _number(cell: str) -> float | None:
    try:
        return float(cell.split(" ")[0])
    except ValueError:
        return None
