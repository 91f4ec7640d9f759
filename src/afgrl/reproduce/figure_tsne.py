"""The figure of Photo's embeddings as a 2-D projection: GCA beside AFGRL, and a close-up of a few nodes per class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score

from afgrl.reproduce import pictures
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

METHODS = ("gca", "afgrl")
DATASET = "photo"
MAX_NODES, QUICK_NODES = 3000, 300
CLOSE_UP = 20  # nodes per class


def specs(scope: Scope) -> list[RunSpec]:
    return [
        scope.spec(dataset, method)
        for dataset in scope.available([DATASET])[:1]
        for method in METHODS
        if method in scope.methods
    ]


def result(scope: Scope, records: Records) -> Result:
    title = "Figure: 2-D projection by t-SNE"
    found = separations(scope)
    rows: list[list[Entry]] = [[method, *values] for method, values in found.items()]
    columns = [Column("method"), Column("silhouette", 3), Column(f"silhouette, {CLOSE_UP} nodes per class", 3)]
    names = [spec.source for spec in specs(scope)[:1]]
    notes = [
        *scope.missing_notes([DATASET]),
        "The silhouette of the classes is computed from the embeddings by cosine distance, not from the projection.",
    ]
    drawn = {"tsne": lambda: _picture(_projections(scope))} if found else {}
    return Result(title, [Table(", ".join([title, *names]), columns, rows)], drawn, notes)


def separations(scope: Scope) -> dict[str, tuple[float, float]]:
    """For each method, the silhouette of the classes among the nodes shown and in the close-up."""
    found = {}
    for method, vectors, y in _embeddings(scope):
        shown, close_up = (
            float(silhouette_score(vectors[part], y[part], metric="cosine")) for part in _parts(scope, y)
        )
        found[method] = shown, close_up
    return found


def _embeddings(scope: Scope) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Method, unit vectors and labels of each run whose embedding is available."""
    for spec in specs(scope):
        vectors = scope.embedding(spec)
        if vectors is not None:
            unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            yield spec.method, unit, np.asarray(scope.dataset(spec.source).y)


def _parts(scope: Scope, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes shown, and those of the close-up."""
    rng = np.random.default_rng(0)
    shown = np.sort(rng.permutation(len(y))[: QUICK_NODES if scope.quick else MAX_NODES])
    close_up = [rng.permutation(np.flatnonzero(y == label))[:CLOSE_UP] for label in range(y.max() + 1)]
    return shown, np.concatenate(close_up)


Projections = dict[str, list[tuple[np.ndarray, np.ndarray]]]  # method → points [m, 2] and labels [m] of both parts


def _projections(scope: Scope) -> Projections:
    return {
        method: [(_project(vectors[part]), y[part]) for part in _parts(scope, y)]
        for method, vectors, y in _embeddings(scope)
    }


def _project(vectors: np.ndarray) -> np.ndarray:
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    points: np.ndarray = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(vectors)
    return points


def _picture(projections: Projections) -> Figure:
    figure, axes = pictures.panels(2 * len(projections))
    for column, (method, parts) in enumerate(projections.items()):
        for row, (points, y) in enumerate(parts):
            ax = axes[row * len(projections) + column]
            _scatter(ax, points, y, 3 if row == 0 else 22)
            ax.set_title(method if row == 0 else f"{method}, {CLOSE_UP} nodes per class", fontsize=9)
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
