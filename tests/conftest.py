import os
from dataclasses import replace

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():  # before any kernel is imported: then they run in Triton's interpreter
    os.environ["TRITON_INTERPRET"] = "1"

from afgrl.graph import Graph


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def small_graph():
    return communities()


def weighted(graph, seed=0):
    """The same graph with weights that differ, the same in both directions."""
    low, high = graph.edge_index.aminmax(dim=0)
    drawn = torch.rand(graph.n, graph.n, generator=torch.Generator().manual_seed(seed)) + 0.1
    return replace(graph, edge_weight=drawn[low, high])


def communities(n_groups=3, size=20, n_features=12, seed=0, n_isolated=2, signal=3.0):
    """Groups of nodes that are linked and look alike, and a few nodes without an edge."""
    draw = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    n = len(group) + n_isolated
    features = draw.normal(size=(n, n_features))
    features[: len(group), :n_groups] += signal * np.eye(n_groups)[group]
    linked = draw.random((len(group), len(group))) < np.where(group[:, None] == group, 0.3, 0.01)
    return Graph(features, np.stack(np.triu(linked, 1).nonzero()))
