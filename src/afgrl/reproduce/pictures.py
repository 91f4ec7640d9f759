"""The style of all pictures: readable in print, on a screen and for color-blind readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

# The colors of Okabe and Ito, which color-blind readers can distinguish; each line also has its own marker.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL = (3.4, 2.7)  # inches
MAX_DEPTH = 0.2  # of the best value: how far below it a panel reaches
MIN_SPAN = 0.03  # of the best value: the smallest range of a panel
FRAME_NOTE = "A line that leaves its panel continues below it; the table has all values."


def panels(count: int, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with that many panels, and their axes."""
    columns = max(1, min(count, columns))
    rows = max(1, -(-count // columns))
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained", dpi=150)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=8)
    return figure, axes


def line(
    ax: Axes, i: int, x: Sequence[float], y: Sequence[float], label: str, spread: Sequence[float] | None = None
) -> None:
    """A series with the i-th color and marker."""
    color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
    ax.errorbar(x, y, yerr=spread, color=color, marker=marker, markersize=4, linewidth=1.3, capsize=2, label=label)


def doubling(ax: Axes, values: Sequence[float]) -> None:
    """A logarithmic x-axis with a tick at each value."""
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(values)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())


def frame(ax: Axes) -> None:
    """Limit the y-axis: not far below the best value, so that a failed line does not flatten the others, and not
    narrower than 3 % of it, so that small differences look small."""
    values = [value for line in ax.lines for value in np.asarray(line.get_ydata()).tolist()]
    if not values:
        return
    best = max(values)
    if min(values) < (1 - MAX_DEPTH) * best:
        ax.set_ylim((1 - MAX_DEPTH) * best, (1 + MAX_DEPTH / 20) * best)
    bottom, top = ax.get_ylim()
    missing = max(0.0, MIN_SPAN * best - (top - bottom))
    ax.set_ylim(bottom - missing / 2, top + missing / 2)


def legend(figure: Figure, columns: int = 4) -> None:
    """One legend for all panels, above them."""
    shown = {label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if shown:
        figure.legend(shown.values(), shown, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)
