"""A small real graph that needs no download: scikit-learn's handwritten digits."""

from __future__ import annotations

import numpy as np
import torch

from afgrl.data.benchmarks import Counts
from afgrl.data.dataset import Dataset
from afgrl.data.splits import random_splits
from afgrl.graph import Graph

N_NEIGHBORS = 5
COUNTS = Counts(1797, 6309, 64, 10)


def load_demo(seed: int = 0) -> Dataset:
    """Digits with their pixels as features, linked to their nearest neighbors, labeled with the digit."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.from_numpy(digits.data / 16)  # stored as 0…16
    graph = Graph(pixels, torch.from_numpy(_nearest_neighbor_edges(digits.data)))
    return Dataset("demo", graph, digits.target.astype(np.int64), random_splits(graph.n, seed))


def _nearest_neighbor_edges(pixels: np.ndarray, k: int = N_NEIGHBORS) -> np.ndarray:
    """Edges from each row to its k nearest neighbors; of equal distances, to the lower row: [2, n · k].

    Pixels are integers, so distances are exact and often equal. A library's order of equal distances would make the
    graph differ between machines.
    """
    n = len(pixels)
    norms = np.square(pixels).sum(axis=1)
    distances = norms[:, None] - 2 * pixels @ pixels.T + norms
    keys = distances * n + np.arange(n)
    np.fill_diagonal(keys, np.inf)
    nearest = np.argpartition(keys, k, axis=1)[:, :k]
    return np.stack([np.repeat(np.arange(n), k), nearest.ravel()])
