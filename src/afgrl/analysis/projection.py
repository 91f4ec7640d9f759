"""2-D projections of the vectors of a run: t-SNE and PCA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KDTree
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch.nn import functional as F

from afgrl.amounts import counted
from afgrl.data.spill import row_blocks
from afgrl.errors import UserError, unknown
from afgrl.ops.knn import nearest_neighbors
from afgrl.runs.added import additions, all_vectors
from afgrl.runs.folder import Run
from afgrl.runs.lock import writing_if_free

LANDMARKS = 5_000  # t-SNE of more rows takes minutes on two cores
N_PRINCIPAL = 50  # principal components for t-SNE: the result is as good as with all, and several times faster
BLOCK_ROWS = 1 << 18  # that are placed at once
N_NEAREST = 5  # landmarks that place a row; with more, rows gather between the groups


def project_run(run: Run, name: str, message: Callable[[str], Any] = lambda sentence: None) -> np.ndarray:
    """A point for each node, [n, 2] float32: the projection ``name`` that is stored in the run, or computed and stored.
    Nodes that were added to the run are placed among them, which changes no point and is not stored.

    ``tsne`` and ``pca`` can be computed. Any other name refers to a projection saved with ``run.save_projection``.
    """
    _, vectors = run.embedding()
    points = _project_trained(run, name, vectors, message)
    if not additions(run):
        return points
    added = all_vectors(run)[1][len(vectors) :]
    placed = _place_among(points, unit_rows(vectors), added, np.random.default_rng(0))
    return np.concatenate([points, placed.astype(np.float32)])


def _project_trained(run: Run, name: str, vectors: np.ndarray, message: Callable[[str], Any]) -> np.ndarray:
    """The points of the nodes that the run was trained on."""
    stored = run.projection(name)
    if stored is not None and stored.shape == (len(vectors), 2):
        return stored
    points = project_vectors(vectors, name, message)
    with writing_if_free(run.path) as nobody_else:
        if nobody_else and run.has_vectors(vectors):
            run.save_projection(name, points)
    return points


def project_vectors(
    vectors: np.ndarray, name: str, message: Callable[[str], Any] = lambda sentence: None
) -> np.ndarray:
    """A point for each vector, [n, 2] float32, by ``tsne`` or ``pca``."""
    if name not in PROJECTIONS:
        raise unknown("projection", name, PROJECTIONS)
    if not all(np.isfinite(vectors[rows]).all() for rows in row_blocks(len(vectors), BLOCK_ROWS)):
        raise UserError("The vectors are not finite, so they cannot be projected.")
    message(f"Computing the 2-D projection of {counted(len(vectors), 'node')} with {name}.")
    points = PROJECTIONS[name](vectors)
    return _separate_duplicates(_rotate_to_landscape(points).astype(np.float32))


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    return F.normalize(torch.from_numpy(vectors)).numpy()


def pca(vectors: np.ndarray) -> np.ndarray:
    """The first two principal components of unit rows: distances are meaningful, but groups may overlap."""
    points = np.zeros((len(vectors), 2))
    width = min(2, vectors.shape[1])
    if not _all_equal(vectors):
        points[:, :width] = PCA(width, random_state=0).fit_transform(unit_rows(vectors))
    return points


def tsne(vectors: np.ndarray) -> np.ndarray:
    """t-SNE of unit rows: neighbors stay neighbors; sizes of groups and distances between them mean little.

    Above 5,000 rows, t-SNE projects 5,000 random rows (landmarks). Each other row is placed near most of its five most
    similar landmarks. Groups and their neighborhoods remain those of t-SNE; the order of rows within a small distance
    does not, and a group without a landmark is placed with the most similar group.
    """
    draw = np.random.default_rng(0)
    if len(vectors) < 5 or vectors.shape[1] < 2 or _all_equal(vectors):
        return pca(vectors)
    if len(vectors) <= LANDMARKS:
        return _scikit_learn_tsne(unit_rows(vectors))
    chosen = np.sort(draw.permutation(len(vectors))[:LANDMARKS])
    rows = unit_rows(vectors[chosen])
    landmarks = _scikit_learn_tsne(rows)
    points = _place_among(landmarks, rows, vectors, draw)
    points[chosen] = landmarks
    return points


def _place_among(
    landmarks: np.ndarray, landmark_rows: np.ndarray, vectors: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """A point for each of the vectors [m, d], near most of its five most similar landmarks [l, 2], whose unit rows are
    [l, d]. In blocks: unit rows of all vectors would take their memory again."""
    k, keys = min(N_NEAREST, len(landmarks)), torch.from_numpy(landmark_rows)
    points, most_similar = np.empty((len(vectors), 2)), np.empty(len(vectors), dtype=np.int64)
    for rows in row_blocks(len(vectors), BLOCK_ROWS):
        neighbors = nearest_neighbors(torch.from_numpy(unit_rows(vectors[rows])), keys, k)
        nearest = neighbors.index.numpy()
        points[rows] = _weighted_median(landmarks[nearest], _landmark_weights(neighbors.similarity.numpy()))
        most_similar[rows] = nearest[:, 0]
    n_spacing = min(4, len(landmarks))  # a landmark and the three nearest to it
    spacing = KDTree(landmarks).query(landmarks, n_spacing)[0][:, 1:].sum(1) / max(n_spacing - 1, 1)
    points += 0.3 * spacing[most_similar, None] * draw.normal(size=points.shape)
    return points


def _scikit_learn_tsne(unit: np.ndarray) -> np.ndarray:
    components = PCA(min(N_PRINCIPAL, *unit.shape), random_state=0).fit_transform(unit)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    with threadpool_limits(1):  # the same result on every machine, and several times faster on a busy one
        return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(components).astype(np.float64)


def _all_equal(vectors: np.ndarray) -> bool:
    """Whether all unit rows are, up to rounding."""
    first = unit_rows(vectors[:1])
    return all(np.abs(unit_rows(vectors[rows]) - first).max() < 1e-6 for rows in row_blocks(len(vectors), BLOCK_ROWS))


def _landmark_weights(similarity: np.ndarray) -> np.ndarray:
    """Weights of the landmarks of each row, [n, k]: the last has 1/e² of the weight of the first, the most similar."""
    gap = similarity[:, :1] - similarity
    weight = np.exp(-2 * gap / np.maximum(gap[:, -1:], 1e-6))
    return weight / weight.sum(1, keepdims=True)


def _weighted_median(positions: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The point with the smallest weighted distance to the positions [n, k, 2] of each row, by Weiszfeld's algorithm.

    The mean would place a row whose landmarks are in two groups into the gap between them; the median stays with most.
    """
    points = np.einsum("nk,nkc->nc", weight, positions)
    for _ in range(10):
        pull = weight / (np.linalg.norm(positions - points[:, None], axis=2) + 1e-2)
        points = np.einsum("nk,nkc->nc", pull / pull.sum(1, keepdims=True), positions)
    return points


def _rotate_to_landscape(points: np.ndarray) -> np.ndarray:
    """Rotate the points by the angle at which their height is smallest, because screens are wide."""
    angles = np.radians(np.arange(0, 180, 5))
    rotations = np.stack([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]])  # [2, 2, angles]
    lowest = int(np.ptp(points @ rotations[1], axis=0).argmin())
    return points @ rotations[:, :, lowest].T


def _separate_duplicates(points: np.ndarray) -> np.ndarray:
    """Move all except one of equal points a little, so that each can be seen and clicked."""
    _, first = np.unique(points, axis=0, return_index=True)
    hidden = np.setdiff1d(np.arange(len(points)), first)
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    shift = np.random.default_rng(0).normal(size=(len(hidden), 2))
    points[hidden] += (0.01 * extent * shift).astype(points.dtype)
    return points


PROJECTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tsne": tsne, "pca": pca}
