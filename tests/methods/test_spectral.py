"""Vectors without training: against a complete decomposition in float64, and by hand."""

import pytest
import torch
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.methods.parts import spectral
from afgrl.methods.parts.spectral import SpectralFeatures
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from tests.conftest import communities


def multi_hop(graph):
    """[X | SX | S²X | S³X] in float64, with unit rows in each block."""
    adjacency, block = gcn_norm(graph).to_dense().double(), F.normalize(graph.x.to_dense().double())
    blocks = [block]
    for _ in range(3):
        blocks.append(adjacency @ blocks[-1])
    return torch.cat([F.normalize(each) for each in blocks], 1)


def fitted(graph, width):
    features = SpectralFeatures(graph.n, graph.n_features, width)
    features.fit(graph.x, gcn_norm(graph))
    return features


@pytest.mark.parametrize("sparse", [False, True])
def test_the_vectors_are_the_leading_directions_of_the_multi_hop_features(sparse):
    graph = communities()
    if sparse:
        graph = Graph(graph.x.to_sparse_csr(), graph.edge_index)
    table = multi_hop(graph)
    u, s, _ = torch.linalg.svd(table, full_matrices=False)
    width = 6
    found = fitted(graph, width)(graph.x, gcn_norm(graph)).double()
    expected = u[:, :width] * s[:width]
    # Both are defined up to a rotation of directions with equal values: inner products are not.
    assert torch.allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_many_features_are_first_projected_onto_their_own_directions(monkeypatch):
    graph = communities(n_features=60)
    whole = fitted(graph, 10)(graph.x, gcn_norm(graph))
    monkeypatch.setattr(spectral, "RANK", 50)
    features = fitted(graph, 10)
    assert features.basis.shape == (60, 50)
    assert features.rotation.shape == (200, 10)
    projected = features(graph.x, gcn_norm(graph))
    cosine = F.cosine_similarity((whole @ whole.T).flatten(), (projected @ projected.T).flatten(), dim=0)
    assert cosine > 0.99  # 50 of 60 directions hold nearly all of the features


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_features_are_multiplied_by_their_directions(sparse):
    """The words that tell nodes apart are in the last columns, so cutting the table instead would lose them."""
    graph = communities(n_features=60)
    x = torch.cat([torch.zeros(graph.n, 600), graph.x.to_dense()], 1)
    graph = Graph(x.to_sparse_csr() if sparse else x, graph.edge_index)
    features = fitted(graph, 10)
    assert features.basis.shape == (660, 512)
    found = features(graph.x, gcn_norm(graph)).double()
    u, s, _ = torch.linalg.svd(multi_hop(graph), full_matrices=False)
    expected = u[:, :10] * s[:10]
    assert torch.allclose(found @ found.T, expected @ expected.T, atol=1e-3)  # rounding of two float32 decompositions


def test_a_width_beyond_the_number_of_columns_is_cut():
    assert SpectralFeatures(10, 3, 512).width == 12


def test_pagerank_by_hand():
    adjacency = torch.tensor([[0.5, 0.5], [0.5, 0.5]]).to_sparse_csr()
    v = torch.tensor([[1.0], [0.0]])
    # The mean of both rows stays .5; each step keeps .15 of v and takes .85 of the mean.
    assert torch.allclose(pagerank_average(v, adjacency), torch.tensor([[0.575], [0.425]]))
