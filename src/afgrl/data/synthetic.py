"""Random graphs with the size of a benchmark, to measure time and memory. Their scores mean nothing."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.errors import unknown
from afgrl.graph import Graph

# Share of non-zero features in the real graphs. WikiCS is missing: its word vectors have no zeros.
DENSITY = {"computers": 0.3477, "photo": 0.3474, "cs": 0.0088, "physics": 0.0039, "cora": 0.0127, "citeseer": 0.0085,
           "pubmed": 0.1002}  # fmt: skip
WITHIN_CLASS = 0.8  # share of edges, and of uses of a word, within a class


def synthetic_graph(name: str, seed: int = 0) -> Graph:
    """A random graph with the counts of the benchmark ``name``; nodes of a class share edges and words."""
    if name not in BENCHMARKS:
        raise unknown("dataset", name, BENCHMARKS)
    counts, rng = BENCHMARKS[name].counts, np.random.default_rng(seed)
    y = rng.integers(counts.classes, size=counts.nodes)
    source = rng.integers(counts.nodes, size=counts.edges)
    target = rng.integers(counts.nodes, size=counts.edges)
    within = rng.random(counts.edges) < WITHIN_CLASS
    for label in range(counts.classes):
        chosen = within & (y[source] == label)
        target[chosen] = rng.choice(np.flatnonzero(y == label), size=chosen.sum())
    if name in DENSITY:
        x = csr_from_scipy(_bag_of_words(y, counts.features, DENSITY[name], rng))
    else:
        x = _dense_vectors(y, counts.features, rng)
    return Graph(x, torch.from_numpy(np.stack([source, target])))


def _bag_of_words(y: np.ndarray, n_features: int, density: float, rng: np.random.Generator) -> sp.csr_array:
    """[n, f] of 0 and 1. Word i belongs to class i mod n_classes, whose nodes use it most."""
    n, n_classes = len(y), y.max() + 1
    own_share = min(WITHIN_CLASS, 0.9 / (n_classes * density))  # of the uses of a word; caps its probability at 0.9
    own_probability = own_share * density * n_classes
    other_probability = (1 - own_share) * density * n_classes / (n_classes - 1)
    users = []  # of each word
    for word in range(n_features):
        probability = np.where(y == word % n_classes, own_probability, other_probability)
        users.append(np.flatnonzero(rng.random(n) < probability))
    indptr = np.concatenate([[0], np.cumsum([len(nodes) for nodes in users])])
    indices = np.concatenate(users)
    return sp.csc_array((np.ones(len(indices)), indices, indptr), (n, n_features)).tocsr()


def _dense_vectors(y: np.ndarray, n_features: int, rng: np.random.Generator) -> torch.Tensor:
    means = rng.standard_normal((y.max() + 1, n_features))
    return torch.from_numpy(means[y] + rng.standard_normal((len(y), n_features))).float()
