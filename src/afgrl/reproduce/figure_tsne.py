"""The figure of Photo's vectors in the plane: GCA's beside AFGRL's, with a closer look at a few nodes of each class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score

from afgrl.reproduce import pictures
from afgrl.reproduce.cells import Cell, loaded
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.result import Records, Result, Scope

METHODS = ("gca", "afgrl")
DATASET = "photo"
MOST = 3000  # nodes that are shown
CLOSE = 20  # nodes of each class in the closer look


def cells(scope: Scope) -> list[Cell]:
    return [
        scope.cell(dataset, method)
        for dataset in scope.at_hand([DATASET])[:1]
        for method in METHODS
        if method in scope.methods
    ]


def result(scope: Scope, records: Records) -> Result:
    title = "Figure: vectors in the plane by t-SNE"
    found = separations(scope)
    rows: list[list[Entry]] = [[method, *values] for method, values in found.items()]
    columns = [Column("method"), Column("silhouette, all", 3), Column("silhouette, closer look", 3)]
    names = [cell.dataset for cell in cells(scope)[:1]]
    notes = [
        *scope.absent([DATASET]),
        "The silhouette of the classes, by cosine of the vectors themselves, is what the eye looks for in the plane.",
    ]
    pictures = {"tsne": lambda: _picture(_planes(scope))} if found else {}
    return Result(title, [Table(", ".join([title, *names]), columns, rows)], pictures, notes)


def separations(scope: Scope) -> dict[str, tuple[float, float]]:
    """Of each method the silhouette of the classes, among all that is shown and in the closer look."""
    found = {}
    for method, vectors, y in _vectors(scope):
        shown, close = (float(silhouette_score(vectors[part], y[part], metric="cosine")) for part in _parts(y))
        found[method] = shown, close
    return found


def _vectors(scope: Scope) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for cell in cells(scope) if scope.vectors else ():
        assert scope.vectors is not None
        vectors = scope.vectors(cell)
        if vectors is not None:
            yield cell.method, _unit(vectors), np.asarray(loaded(cell.dataset, scope.data_dir).y)


def _parts(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes that are shown, and those of the closer look."""
    draw = np.random.default_rng(0)
    shown = np.sort(draw.permutation(len(y))[:MOST])
    close = np.concatenate([draw.permutation(np.flatnonzero(y == label))[:CLOSE] for label in range(y.max() + 1)])
    return shown, close


def _planes(scope: Scope) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    return {method: [(_plane(vectors[part]), y[part]) for part in _parts(y)] for method, vectors, y in _vectors(scope)}


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _plane(vectors: np.ndarray) -> np.ndarray:
    near = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(perplexity=near, init="pca", random_state=0).fit_transform(vectors)


def _picture(flat: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> Figure:
    figure, axes = pictures.panels(2 * len(flat))
    for column, (method, parts) in enumerate(flat.items()):
        for row, (points, y) in enumerate(parts):
            ax = axes[row * len(flat) + column]
            _scatter(ax, points, y, 3 if row == 0 else 22)
            ax.set_title(method if row == 0 else f"{method}, {CLOSE} nodes of each class", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=8, frameon=False, fontsize=8, title="class", markerscale=2
    )
    return figure


def _scatter(ax: Axes, points: np.ndarray, y: np.ndarray, size: float) -> None:
    for label in range(int(y.max()) + 1):
        own = points[y == label]
        color = pictures.COLORS[label % len(pictures.COLORS)]
        marker = pictures.MARKERS[(label + label // len(pictures.COLORS)) % len(pictures.MARKERS)]
        ax.scatter(own[:, 0], own[:, 1], s=size, color=color, marker=marker, linewidths=0, label=str(label))
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
