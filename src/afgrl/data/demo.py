"""A small real graph that needs no download: handwritten digits, linked where they look alike."""

from __future__ import annotations

import numpy as np
import torch

from afgrl.data.benchmarks import Counts
from afgrl.data.dataset import Dataset
from afgrl.data.splits import random_splits
from afgrl.graph import Graph

N_NEIGHBORS = 5
COUNTS = Counts(1797, 6309, 64, 10)


def demo(seed: int = 0) -> Dataset:
    """scikit-learn's digits: pixels as features, each linked to its nearest by pixels, the digit as label."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.from_numpy(digits.data / 16)  # stored as 0…16
    graph = Graph(pixels, torch.from_numpy(_nearest(digits.data)))  # which adds the opposite directions
    return Dataset("demo", graph, digits.target.astype(np.int64), random_splits(graph.n, seed))


def _nearest(pixels: np.ndarray, k: int = N_NEIGHBORS) -> np.ndarray:
    """Edges from each row to its k nearest, a tie going to the lower row: [2, n * k].

    Pixels are whole numbers, so distances are exact, and tie often: a library's order of equals would
    make the graph differ between machines.
    """
    n = len(pixels)
    norms = np.square(pixels).sum(axis=1)
    distances = norms[:, None] - 2 * pixels @ pixels.T + norms
    keys = distances * n + np.arange(n)
    np.fill_diagonal(keys, np.inf)
    nearest = np.argpartition(keys, k, axis=1)[:, :k]
    return np.stack([np.repeat(np.arange(n), k), nearest.ravel()])
