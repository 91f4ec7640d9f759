"""The vectors of a run in the plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KDTree
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch.nn import functional as F

from afgrl.errors import UserError, unknown
from afgrl.ops import knn
from afgrl.runs import Run

LANDMARKS = 5_000  # t-SNE of more takes minutes on two cores
COLUMNS = 50  # of the principal components that t-SNE reads: as good to it as all, and several times faster
NEAREST = 5  # landmarks that say where a node lies; with more, nodes gather between groups


def plane(run: Run, name: str, say: Callable[[str], None] = lambda line: None) -> np.ndarray:
    """A point for each node, [n, 2] float32: kept in the run, and made first where it is not there.

    ``tsne`` and ``pca`` are made here; any other map that was kept by ``run.save_map`` can be named too.
    """
    _, vectors = run.embedding()
    kept = run.map(name)
    if kept is not None and kept.shape == (len(vectors), 2):
        return kept
    if name not in MAPS:
        raise unknown("map", name, MAPS)
    if not np.isfinite(vectors).all():
        raise UserError(f"The vectors of {str(run.path)!r} hold numbers that are not finite, so they have no map.")
    say(f"The map of {len(vectors):,} nodes by {name}")
    flat = MAPS[name](F.normalize(torch.from_numpy(vectors)).numpy())
    points = _apart(_turned(flat).astype(np.float32))
    run.save_map(name, points)
    return points


def pca(unit: np.ndarray) -> np.ndarray:
    """The two directions in which the rows differ most: distances mean something, but groups may overlap."""
    points = np.zeros((len(unit), 2))
    width = min(2, unit.shape[1])
    if not _coincide(unit):
        points[:, :width] = PCA(width, random_state=0).fit_transform(unit)
    return points


def tsne(unit: np.ndarray) -> np.ndarray:
    """Rows of unit length by t-SNE: neighbors stay neighbors; sizes of groups and distances between them say little.

    Above 5,000 rows, t-SNE is of 5,000 drawn at random, and each other row goes where most of the five landmarks
    most similar to it are. So groups, and which of them touch, are kept as t-SNE keeps them; who is next to whom
    within a few points' distance is not, and a group too small to have a landmark lies with the one most like it.
    """
    draw = np.random.default_rng(0)
    if len(unit) < 5 or unit.shape[1] < 2 or _coincide(unit):
        return pca(unit)
    if len(unit) <= LANDMARKS:
        return _tsne(unit)
    chosen = np.sort(draw.permutation(len(unit))[:LANDMARKS])
    marks = _tsne(unit[chosen])
    found = knn(torch.from_numpy(unit), torch.from_numpy(unit[chosen]), NEAREST)
    nearest = found.index.numpy()
    points = _median(marks[nearest], _weights(found.similarity.numpy()))
    gap = KDTree(marks).query(marks, 4)[0][:, 1:].mean(1)  # how far apart landmarks are there
    points += 0.3 * gap[nearest[:, 0], None] * draw.normal(size=points.shape)
    points[chosen] = marks
    return points


def _tsne(unit: np.ndarray) -> np.ndarray:
    columns = min(COLUMNS, *unit.shape)
    narrow = PCA(columns, random_state=0).fit_transform(unit)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    with threadpool_limits(1):  # the same map on every machine, and several times faster on a busy one
        return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(narrow).astype(np.float64)


def _coincide(unit: np.ndarray) -> bool:
    return bool(np.abs(unit - unit[0]).max() < 1e-6)  # no more than rounding


def _weights(similarity: np.ndarray) -> np.ndarray:
    """Of the landmarks of each node, [n, k]: falling to a seventh from the most similar to the least."""
    gap = similarity[:, :1] - similarity
    weight = np.exp(-2 * gap / np.maximum(gap[:, -1:], 1e-6))
    return weight / weight.sum(1, keepdims=True)


def _median(places: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The point with the least weighted distance to the places of each node, [n, k, 2], by Weiszfeld's steps.

    A mean would put a node whose landmarks lie in two groups into the void between them; this stays with most.
    """
    points = np.einsum("nk,nkc->nc", weight, places)
    for _ in range(10):
        pull = weight / (np.linalg.norm(places - points[:, None], axis=2) + 1e-2)
        points = np.einsum("nk,nkc->nc", pull / pull.sum(1, keepdims=True), places)
    return points


def _turned(points: np.ndarray) -> np.ndarray:
    """The same, turned to where it is least high, as screens are."""
    angles = np.radians(np.arange(0, 180, 5))
    turns = np.stack([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]])  # [2, 2, angles]
    flattest = int(np.ptp(points @ turns[1], axis=0).argmin())
    return points @ turns[:, :, flattest].T


def _apart(points: np.ndarray) -> np.ndarray:
    """The same, but of points that coincide all but one are moved a little, so that each can be seen and clicked."""
    _, first = np.unique(points, axis=0, return_index=True)
    hidden = np.setdiff1d(np.arange(len(points)), first)
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    shift = np.random.default_rng(0).normal(size=(len(hidden), 2))
    points[hidden] += (0.01 * extent * shift).astype(points.dtype)
    return points


MAPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tsne": tsne, "pca": pca}
