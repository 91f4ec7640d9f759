"""The configurations of each method that the contract tests run."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from afgrl.graph import Graph
from afgrl.methods import available_methods, method_class
from tests.conftest import communities
from tests.methods.short_runs import small_labels, start_run, train_run


@dataclass(frozen=True)
class Case:
    """One configuration of one method."""

    method: str
    title: str
    make_graph: Callable[[], Graph]
    settings: dict  # settings that the method does not have are ignored

    def __str__(self):
        return f"{self.method}-{self.title}"

    @property
    def cls(self):
        return method_class(self.method)

    @property
    def graph(self):
        return self.make_graph()

    def start(self, graph=None, **options):
        return start_run(self.method, graph or self.graph, **self.settings | options)

    def train(self, graph=None, **options):
        return train_run(self.method, graph or self.graph, **self.settings | options)


@cache
def dense_graph():
    return communities(size=15)


@cache
def sparse_graph():
    """Directed and weighted, with features sparse enough for the sparse products on a CPU."""
    draw = np.random.default_rng(1)
    n, n_features, n_edges = 41, 300, 120
    group = small_labels(n)[0].numpy()
    likely = np.where(np.arange(n_features) // 20 == group[:, None], 0.1, 0.005)
    x = draw.random((n, n_features)) * (draw.random((n, n_features)) < likely)
    edges = draw.integers(0, n - 2, (2, n_edges))  # the last two nodes are isolated
    return Graph(sp.csr_array(x), edges, directed=True, edge_weight=draw.random(n_edges) + 0.1)


OTHER_SIZES = {"n_components": 5, "predictor_width": 11, "hidden_width": 6, "projection_width": 7, "batch_size": 9}
OTHER_SIZES |= {"n_hops": 2, "n_layers": 2, "n_neighbors": 2, "n_clusters": 3, "refresh_every": 1, "row_sums": False}
# Settings that take other paths through a method.
MORE_CASES = {
    "afgrl": [
        {"positives": "clusters", "normalization": "batch", "include_self": False, "loss_over": "nodes"},
        {"positives": "knn", "normalization": "none", "schedule": "authors"},
        {"search": "clusters", "warm_start": False, "schedule": "constant"},
    ],
    "node_embedder": [
        {"skip": "svd+ppr"},
        {"skip": "svd", "input": "own"},
        {"skip": "svd", "input": "features", "batch_size": 7, "dropout": 0.0, "n_hops": 0},
        {"skip": "none", "loss_over": "nodes", "positives": "clusters", "batch_size": 1000},
    ],
    "bgrl": [{"warmup": 0.5}],
    "cca_ssg": [{"n_layers": 1}],
    "deepwalk": [{"batch_size": 3}],
    "gca": [{"centrality": "pagerank", "activation": "relu"}],
    "grace": [{"activation": "rrelu", "temperature": 1.0}],
    "graphmae2": [{"n_remasks": 2, "momentum": 0.5, "exponent": 1.0}],
    "mvgrl": [{"diffusion": "heat"}],
    "ns4gc": [{"n_layers": 1, "threshold": 0.0, "n_negatives": 6}],
    "node2vec": [{"p": 4.0, "q": 0.25}],
    "signa": [{"steps": 6, "batch_size": 20, "n_components": 8}, {"mask": 0.0}],
    "sgrl": [{"target_learning_rate": 1e-3, "momentum": 0.5}],
    "supervised_gcn": [{"dropout": 0.0}],
}


def cases_of(name):
    first = Case(name, "dense", dense_graph, {"n_hops": 0})
    second = Case(name, "sparse-directed-weighted", sparse_graph, OTHER_SIZES)
    more = [Case(name, ",".join(map(str, each.values())), dense_graph, each) for each in MORE_CASES.get(name, [])]
    return [first, second, *more]


CASES = [case for name in available_methods() for case in cases_of(name)]
CONTRACT = []  # all contract tests


def contract(test):
    """Run a test for every case of every method."""
    CONTRACT.append(test)
    return pytest.mark.parametrize("case", CASES, ids=str)(test)
