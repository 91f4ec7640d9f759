import functools
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():  # set before any kernel is imported: they then run in Triton's interpreter
    os.environ["TRITON_INTERPRET"] = "1"

from afgrl.graph import Graph


@pytest.fixture(autouse=True)
def _garbage_in_uninitialized_memory(monkeypatch):
    """Fills uninitialized tensors, so that a result that was not written cannot be correct by chance."""
    for owner, names in (
        (torch, ("empty", "empty_like", "empty_strided")),
        (torch.Tensor, ("new_empty", "new_empty_strided")),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, _filled(getattr(owner, name)))


def _filled(allocate):
    @functools.wraps(allocate)
    def allocate_and_fill(*args, **kwargs):
        tensor = allocate(*args, **kwargs)
        if tensor.layout == torch.strided and not tensor.is_quantized:
            tensor.detach().fill_(_garbage(tensor.dtype))
        return tensor

    return allocate_and_fill


def _garbage(dtype):
    if dtype == torch.bool:
        return True
    # As an index, the integer is out of range; as a number, it is far from any result.
    return torch.nan if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max // 3


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def small_graph():
    return communities()


def weighted(graph, seed=0):
    """The same graph with different edge weights, equal in both directions."""
    low, high = graph.edge_index.aminmax(dim=0)
    drawn = torch.rand(graph.n, graph.n, generator=torch.Generator().manual_seed(seed)) + 0.1
    return replace(graph, edge_weight=drawn[low, high])


def communities(n_groups=3, size=20, n_features=12, seed=0, n_isolated=2, signal=3.0):
    """Groups of nodes with similar features and many edges within a group, and a few isolated nodes."""
    draw = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    n = len(group) + n_isolated
    features = draw.normal(size=(n, n_features))
    features[: len(group), :n_groups] += signal * np.eye(n_groups)[group]
    linked = draw.random((len(group), len(group))) < np.where(group[:, None] == group, 0.3, 0.01)
    return Graph(features, np.stack(np.triu(linked, 1).nonzero()))
