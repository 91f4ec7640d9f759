"""Random graphs of any size with classes, as .npz files: bags of words, or dense vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

WITHIN_CLASS = 0.8  # share of edges, and of words, that belong to the node's class


@dataclass(frozen=True)
class Shape:
    nodes: int
    degree: int  # edges per node
    features: int
    words: int = 0  # per node; 0: dense vectors
    classes: int = 20


SHAPES = {
    "words-1k": Shape(1_000, 2, 1_000, words=20),
    "vectors-1k": Shape(1_000, 8, 64),
    "vectors-50k": Shape(50_000, 10, 128),
    "words-100k": Shape(100_000, 10, 5_000, words=40),
    "vectors-200k": Shape(200_000, 3, 100),
    "vectors-1m": Shape(1_000_000, 3, 32),
}


def write(name: str, file: str | Path) -> None:
    """A graph of that shape in the layout of gnn-benchmark."""
    shape, rng = SHAPES[name], np.random.default_rng(0)
    y = np.sort(rng.integers(shape.classes, size=shape.nodes))
    begin = np.searchsorted(y, np.arange(shape.classes + 1))
    source = rng.integers(shape.nodes, size=shape.nodes * shape.degree)
    target = rng.integers(shape.nodes, size=len(source))
    within = rng.random(len(source)) < WITHIN_CLASS
    low, high = begin[y[source]], begin[y[source] + 1]
    target = np.where(within, low + (rng.random(len(source)) * (high - low)).astype(np.int64), target)
    ones = np.ones(len(source), dtype=np.float32)
    adjacency = sp.csr_array((ones, (source, target)), shape=(shape.nodes, shape.nodes))
    adjacency.data[:] = 1
    arrays = {"labels": y}
    for part in ("data", "indices", "indptr"):
        arrays[f"adj_{part}"] = getattr(adjacency, part)
    arrays["adj_shape"] = np.array(adjacency.shape)
    if shape.words:
        words = _bags_of_words(y, shape, rng)
        arrays |= {f"attr_{part}": getattr(words, part) for part in ("data", "indices", "indptr")}
        arrays["attr_shape"] = np.array(words.shape)
    else:
        means = rng.standard_normal((shape.classes, shape.features), dtype=np.float32)
        arrays["attr_matrix"] = means[y] + rng.standard_normal((shape.nodes, shape.features), dtype=np.float32)
    np.savez(file, **arrays)


def _bags_of_words(y: np.ndarray, shape: Shape, rng: np.random.Generator) -> sp.csr_array:
    """[n, f] of ones. Frequent words have low numbers, as in a language; most words of a node belong to its class."""
    n, drawn = shape.nodes, shape.words
    frequency = (rng.random((n, drawn), dtype=np.float32) ** 3 * (shape.features // shape.classes)).astype(np.int64)
    own = np.where(rng.random((n, drawn)) < WITHIN_CLASS, y[:, None], rng.integers(shape.classes, size=(n, drawn)))
    column = (frequency * shape.classes + own).reshape(-1)
    row = np.repeat(np.arange(n), drawn)
    table = sp.csr_array((np.ones(n * drawn, dtype=np.float32), (row, column)), shape=(n, shape.features))
    table.data[:] = 1
    return table
