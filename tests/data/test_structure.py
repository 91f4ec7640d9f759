"""Features of graphs that have none."""

import json

import networkx as nx
import numpy as np
import pytest

from afgrl import Graph
from afgrl.data.tables.encode import table_encoder_from_json
from afgrl.data.tables.structure import N_SIGNS, StructuralFeatures


def test_structural_features_do_not_depend_on_the_order_of_nodes():
    ring = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    both = np.concatenate([ring, ring[::-1]], axis=1)
    ids = np.array(list("abcdef"), dtype=object)
    structure = StructuralFeatures.fit(both, ids)
    x = structure.encode(both, ids)
    assert x.shape == (6, len(structure.names))
    assert np.isfinite(x).all()
    order = np.array([3, 1, 5, 0, 2, 4])
    place = np.argsort(order)
    np.testing.assert_allclose(structure.encode(place[both], ids[order]), x[order], atol=1e-5)


def test_statistics_and_positions_are_those_of_networkx():
    network = nx.karate_club_graph()
    for *_, data in network.edges(data=True):
        data.clear()  # of weights
    graph = Graph(np.ones((34, 1)), np.array(network.edges).T)
    edges, ids = graph.edge_index.numpy(), np.arange(34)
    structure = StructuralFeatures(mean=[0.0] * 5, scale=[1.0] * 5)
    x = structure.encode(edges, ids)
    log_degree = np.log1p([degree for _, degree in network.degree])
    neighbors = [list(network[node]) for node in network]
    mean = np.array([log_degree[near].mean() for near in neighbors])
    np.testing.assert_allclose(x[:, 0], log_degree, rtol=1e-6)
    np.testing.assert_allclose(x[:, 1], mean, rtol=1e-6)
    np.testing.assert_allclose(x[:, 2], [log_degree[near].max() for near in neighbors], rtol=1e-6)
    np.testing.assert_allclose(x[:, 3], [mean[near].mean() for near in neighbors], rtol=1e-6)
    pagerank = np.array(list(nx.pagerank(network).values()))
    np.testing.assert_allclose(x[:, 4], np.log(34 * pagerank), atol=0.01)  # 20 power iterations
    one_hop, two_hops = x[:, 5 : 5 + N_SIGNS], x[:, 5 + N_SIGNS :]
    for block in (one_hop, two_hops):
        np.testing.assert_allclose(np.linalg.norm(block, axis=1), 1, rtol=1e-6)
    leaf = next(node for node in network if network.degree[node] == 1)
    np.testing.assert_allclose(np.abs(one_hop[leaf]), 1 / N_SIGNS**0.5, rtol=1e-6)  # the signs of its only neighbor


def test_structural_features_are_stored_as_json():
    structure = StructuralFeatures(mean=[0.5] * 5, scale=[2.0] * 5)
    assert table_encoder_from_json(json.loads(json.dumps(structure.as_json()))) == structure


def test_fitted_statistics_are_standardized_and_isolated_nodes_are_finite():
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    ids = np.array(["a", "b", "c", "alone"], dtype=object)
    x = StructuralFeatures.fit(edges, ids).encode(edges, ids)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x[:, :5].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x[:, :5].std(axis=0), 1, atol=1e-5)
    assert not x[3, 5:].any()
    same_id = StructuralFeatures.fit(edges, ids).encode(edges[:, :2], np.array(["x", "b", "y", "z"], dtype=object))
    assert x[0, 5 : 5 + N_SIGNS] == pytest.approx(same_id[0, 5 : 5 + N_SIGNS])  # linked to b in both graphs
