"""Interactive pictures of nodes in notebooks, drawn from plain arrays: points, lines, ids and colors.

Plotly's ``FigureWidget`` draws them. It is an anywidget, made for JupyterLab, VS Code and Colab, with zoom, lasso,
box selection and hover text, which would otherwise be our own JavaScript.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from afgrl.amounts import counted, number
from afgrl.errors import UserError

MAX_GROUPS = 50  # entries of the legend; rarer values share the last one
MAX_SVG_POINTS = 2_000  # more points are drawn with WebGL; a page has few of its contexts, so small pictures use none
FAN_OUT = 5  # neighbors through which a sample of a large graph grows; more would draw one hub and nothing else
OTHERS, MISSING = "other values", "no value"


@dataclass(frozen=True, eq=False)
class NodePlot:
    """A picture of nodes. A notebook shows it, and ``selected_ids`` follows its lasso and box selections."""

    widget: Any  # plotly.graph_objects.FigureWidget
    ids: np.ndarray  # [m] of the nodes that are drawn
    groups: tuple[np.ndarray, ...]  # the positions in ``ids`` of the points of each of the last traces

    @property
    def selected_ids(self) -> np.ndarray:
        """The ids of the selected nodes, in node order; empty if nothing is selected."""
        chosen = [
            group[np.asarray(trace.selectedpoints or (), dtype=np.int64)]
            for trace, group in zip(self._node_traces, self.groups, strict=True)
        ]
        return self.ids[np.sort(np.concatenate(chosen))]

    def on_select(self, callback: Callable[[np.ndarray], Any]) -> None:
        """Call ``callback(ids)`` after each selection, with an empty array when it is cleared by a double click."""
        last = self._node_traces[-1]  # Plotly tells the traces one after the other
        last.on_selection(lambda *_: callback(self.selected_ids), append=True)
        last.on_deselect(lambda *_: callback(self.selected_ids), append=True)

    @property
    def _node_traces(self) -> Sequence[Any]:
        traces: Sequence[Any] = self.widget.data[-len(self.groups) :]
        return traces

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Shown in notebooks."""
        return self.widget._repr_mimebundle_(**options)


def plot_points(
    points: np.ndarray, ids: np.ndarray, *, title: str, names: Sequence[str] | None = None,
    color: Sequence[Any] | np.ndarray | None = None, lines: np.ndarray | None = None,
) -> NodePlot:  # fmt: skip
    """A picture of points [m, 2] with a name for each on hover, and lines [2, e] between their positions.

    ``color`` has a value for each point: numbers are a gradient, other values are groups of a legend.
    """
    check_plotly()
    import plotly.graph_objects as go
    from plotly.colors import qualitative

    names = [str(name) for name in (ids if names is None else names)]
    traces = [] if lines is None else [_line_trace(go, points, lines)]
    groups: list[np.ndarray] = []
    for name, rows, marker, values in _groups(color, len(points)):
        kind = go.Scatter if len(points) <= MAX_SVG_POINTS else go.Scattergl
        shown = [_as_plain(text) for text in np.array(names, dtype=object)[rows]]
        if values is not None:
            shown = [f"{text}<br>{_as_plain(value)}" for text, value in zip(shown, values, strict=True)]
        traces.append(
            kind(
                x=points[rows, 0], y=points[rows, 1], mode="markers", name=_as_plain(name), marker=marker, text=shown,
                hovertemplate="%{text}<extra></extra>", showlegend=values is not None and "color" not in marker,
            )
        )  # fmt: skip
        groups.append(rows)
    layout = go.Layout(
        title=_as_plain(title), template="plotly_white", dragmode="lasso", height=560, hovermode="closest",
        colorway=qualitative.Plotly if len(groups) <= len(qualitative.Plotly) else qualitative.Dark24,
        legend={"itemsizing": "constant"}, margin={"l": 10, "r": 10, "t": 50, "b": 10},
        xaxis={"visible": False}, yaxis={"visible": False, "scaleanchor": "x"},
    )  # fmt: skip
    return NodePlot(go.FigureWidget(traces, layout), np.asarray(ids), tuple(groups))


def plot_graph(
    edge_index: np.ndarray, ids: np.ndarray, *, color: Sequence[Any] | np.ndarray | None = None, max_nodes: int = 300
) -> NodePlot:
    """A picture of the nodes and edges [2, e] of a graph, or of a connected sample of ``max_nodes`` of them."""
    check_plotly()
    import networkx as nx  # imported at first use: it takes half a second

    n = len(ids)
    if max_nodes < 1:
        raise UserError(f"max_nodes must be at least 1, not {max_nodes}.")
    rows = np.arange(n) if n <= max_nodes else _connected_sample(edge_index, n, max_nodes)
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))
    lines = place[edge_index]
    lines = np.unique(np.sort(lines[:, (lines >= 0).all(0)], axis=0), axis=1)  # one line for both directions
    network = nx.empty_graph(len(rows))
    network.add_edges_from(lines.T.tolist())
    layout = nx.spring_layout(network, seed=0)
    points = np.array([layout[i] for i in range(len(rows))]).reshape(-1, 2)
    size = counted(n, "node") if len(rows) == n else f"A sample of {len(rows):,} of {counted(n, 'node')}"
    values = None if color is None else checked_color(color, n)[rows]
    return plot_points(points, ids[rows], title=f"{size}, {counted(lines.shape[1], 'edge')}", color=values, lines=lines)


def check_plotly() -> None:
    """Fail before the work, not after it."""
    missing = [name for name in ("plotly", "anywidget") if find_spec(name) is None]
    if missing:
        raise UserError(f"A plot needs {' and '.join(missing)}: pip install 'afgrl[notebook]'.")


def _connected_sample(edge_index: np.ndarray, n: int, size: int) -> np.ndarray:
    """The rows of ``size`` nodes, found along edges from a random node, and from another one if those end."""
    draw = np.random.default_rng(0)
    order = np.argsort(edge_index[0], kind="stable")
    targets, starts = edge_index[1][order], np.searchsorted(edge_index[0][order], np.arange(n + 1))
    found: dict[int, None] = {}
    for first in draw.permutation(n).tolist():
        waiting = [first]
        while waiting and len(found) < size:
            node = waiting.pop(0)
            if node in found:
                continue
            found[node] = None
            linked = targets[starts[node] : starts[node + 1]]
            waiting += draw.permutation(linked)[:FAN_OUT].tolist()
        if len(found) >= size:
            break
    return np.sort(np.fromiter(found, dtype=np.int64))


def _line_trace(go: Any, points: np.ndarray, lines: np.ndarray) -> Any:
    """All lines as one path with gaps."""
    gaps = np.full(lines.shape[1], np.nan)
    x, y = (np.stack([points[lines[0], axis], points[lines[1], axis], gaps], 1).ravel() for axis in (0, 1))
    return go.Scatter(
        x=x, y=y, mode="lines", line={"width": 1, "color": "#bbb"}, hoverinfo="skip", showlegend=False, name="edges"
    )


def _groups(color: Any, n: int) -> list[tuple[str, np.ndarray, dict[str, Any], Any]]:
    """Name, rows, marker and values of each group of points: one for numbers, one for each value otherwise."""
    every = np.arange(n)
    if color is None:
        return [("nodes", every, {"size": 6, "color": "#3b6fb6"}, None)]
    values = checked_color(color, n)
    if values.dtype.kind == "f":
        marker = {"size": 6, "color": values, "colorscale": "Viridis", "showscale": True}
        return [("nodes", every, marker, [number(value) for value in values])]
    text = np.array([MISSING if value is None else str(value) for value in values], dtype=object)
    frequent, counts = np.unique(text.astype(str), return_counts=True)
    kept = frequent[np.argsort(-counts, kind="stable")]
    if len(kept) > MAX_GROUPS:
        kept = kept[: MAX_GROUPS - 1]
        text = np.where(np.isin(text.astype(str), kept), text, OTHERS)
    names = sorted(kept.tolist(), key=_natural_order) + ([OTHERS] if len(frequent) > MAX_GROUPS else [])
    return [(name, rows, {"size": 6}, text[rows]) for name in names if len(rows := np.flatnonzero(text == name))]


def checked_color(color: Any, n: int) -> np.ndarray:
    """[n] float for a gradient; objects for groups: integers, booleans and text."""
    values: np.ndarray = np.asarray(color) if hasattr(color, "__array__") else np.array(list(color), dtype=object)
    if values.shape != (n,):
        raise UserError(f"The graph has {counted(n, 'node')}, but the colors have shape {values.shape}.")
    return values if values.dtype.kind == "f" else values.astype(object)


def _natural_order(name: str) -> tuple[bool, float, str]:
    return (not name.isdigit(), float(name) if name.isdigit() else 0.0, name)


def _as_plain(text: Any) -> str:
    """Text that Plotly shows as it is: it would read tags such as <b> otherwise."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;")
