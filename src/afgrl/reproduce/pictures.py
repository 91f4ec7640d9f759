"""How the pictures look: the same in print, on a screen and to color-blind readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

# Okabe and Ito's colors, told apart by all; each line has a marker of its own besides.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL = (3.4, 2.7)  # inches
REACH = 0.2  # of the best value: how far down a panel goes
SPAN = 0.03  # of the best value: what a panel spans at least
FRAME_NOTE = "A line that leaves its panel goes on below; the table has all values."


def panels(count: int, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, and its axes."""
    columns = max(1, min(count, columns))
    rows = max(1, -(-count // columns))
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained", dpi=150)
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=8)
    return figure, axes


def line(
    ax: Axes, place: int, x: Sequence[float], y: Sequence[float], label: str, spread: Sequence[float] | None = None
) -> None:
    """A series with the color and marker of its place."""
    color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
    ax.errorbar(x, y, yerr=spread, color=color, marker=marker, markersize=4, linewidth=1.3, capsize=2, label=label)


def doubling(ax: Axes, values: Sequence[float]) -> None:
    """An axis of values that double, each with its tick."""
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(values)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())


def frame(ax: Axes) -> None:
    """Leaves out what is far below the best: a line that fails would flatten all others. What changes little looks so:
    a panel of a few tenths of a percent would make mountains of it."""
    values = [value for line in ax.lines for value in np.asarray(line.get_ydata()).tolist()]
    if not values:
        return
    best = max(values)
    if min(values) < (1 - REACH) * best:
        ax.set_ylim((1 - REACH) * best, (1 + REACH / 20) * best)
    bottom, top = ax.get_ylim()
    missing = max(0.0, SPAN * best - (top - bottom))
    ax.set_ylim(bottom - missing / 2, top + missing / 2)


def legend(figure: Figure, columns: int = 4) -> None:
    """One legend for all panels, above them."""
    shown = {label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if shown:
        figure.legend(shown.values(), shown, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)
