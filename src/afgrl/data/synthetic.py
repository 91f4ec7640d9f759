"""Graphs made up to the size of real ones: for measuring time and memory, not for scores."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.errors import unknown
from afgrl.graph import Graph

# Share of non-zero features in the real graphs; word vectors, where none is given, have no zeros.
DENSITY = {"computers": 0.3477, "photo": 0.3474, "cs": 0.0088, "physics": 0.0039, "cora": 0.0127, "citeseer": 0.0085,
           "pubmed": 0.1002}  # fmt: skip
SAME_CLASS = 0.8  # share of edges, and of words, that stay within a class


def synthetic(name: str, seed: int = 0) -> Graph:
    """A graph as large as the benchmark ``name``, with as many classes, but none of its nodes."""
    if name not in BENCHMARKS:
        raise unknown("dataset", name, BENCHMARKS)
    counts, draw = BENCHMARKS[name].counts, np.random.default_rng(seed)
    label = draw.integers(counts.classes, size=counts.nodes)
    members = [np.flatnonzero(label == one) for one in range(counts.classes)]
    source = draw.integers(counts.nodes, size=counts.edges)
    target = draw.integers(counts.nodes, size=counts.edges)
    inside = draw.random(counts.edges) < SAME_CLASS
    for one, nodes in enumerate(members):
        here = inside & (label[source] == one)
        target[here] = draw.choice(nodes, size=here.sum())
    if name in DENSITY:
        x = csr_from_scipy(_words(label, counts.features, DENSITY[name], draw))
    else:
        x = _vectors(label, counts.features, draw)
    return Graph(x, torch.from_numpy(np.stack([source, target])))


def _words(label: np.ndarray, n_features: int, density: float, draw: np.random.Generator) -> sp.csr_array:
    """A bag of words for each node; a class has every n_classes-th word for its own, and uses them most."""
    n, n_classes = len(label), label.max() + 1
    own_share = min(SAME_CLASS, 0.9 / (n_classes * density))  # of a word's uses; none is in all bags of a class
    own = own_share * density * n_classes  # the chance that a node has a word of its class
    other = (1 - own_share) * density * n_classes / (n_classes - 1)
    found = []
    for word in range(n_features):
        found.append(np.flatnonzero(draw.random(n) < np.where(label == word % n_classes, own, other)))
    start = np.concatenate([[0], np.cumsum([len(nodes) for nodes in found])])
    nodes = np.concatenate(found)
    return sp.csc_array((np.ones(len(nodes)), nodes, start), (n, n_features)).tocsr()


def _vectors(label: np.ndarray, n_features: int, draw: np.random.Generator) -> torch.Tensor:
    means = draw.standard_normal((label.max() + 1, n_features))
    return torch.from_numpy(means[label] + draw.standard_normal((len(label), n_features))).float()
