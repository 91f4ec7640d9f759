import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.parts.augmentations import (
    centrality,
    drop_probabilities,
    edge_drop_weights,
    feature_drop_weights,
    keep_mask,
    random_permutation,
)

KINDS = ["degree", "pagerank", "eigenvector"]


def bound(rate, size):
    """Four standard errors of a mean: one draw in 16,000 would exceed it, and the seeds are fixed."""
    return 4 * math.sqrt(rate * (1 - rate) / size)


def graph_of(network, x=None):
    edges = torch.tensor(list(network.edges), dtype=torch.int64).reshape(-1, 2).T
    return Graph(torch.ones(len(network), 1) if x is None else x, edges, directed=network.is_directed())


def star(x=None):
    """Node 0 is the center, 1 to 4 are leaves. The sorted edges: four from the center, then four to it."""
    return graph_of(nx.star_graph(4), x)


def random_graph(sparse=False):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 300)) * (draw.random((200, 300)) < 0.2)
    return Graph(sp.csr_array(x) if sparse else x, draw.integers(0, 200, (2, 3000)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.7])
def test_the_dropped_share_is_the_rate(rate, rng):
    mask = keep_mask(torch.full((40_000,), rate), rng)
    assert torch.equal(mask.unique(), torch.tensor([0.0, 1.0]))
    assert abs(mask.mean().item() - (1 - rate)) < bound(rate, 40_000)


def test_each_entry_has_its_own_probability(rng):
    share = keep_mask(torch.tensor([0.0, 0.25, 0.75, 1.0]).repeat(40_000, 1), rng).mean(0)
    assert (share[0], share[3]) == (1, 0)  # exactly
    assert (share[1:3] - torch.tensor([0.75, 0.25])).abs().max() < bound(0.25, 40_000)


def test_draws_and_positions_are_independent(rng):
    first, second = (keep_mask(torch.full((40_000,), 0.5), rng) for _ in range(2))
    assert abs((first == second).float().mean() - 0.5) < bound(0.5, 40_000)
    assert abs((first[1:] == first[:-1]).float().mean() - 0.5) < bound(0.5, 40_000)


def test_the_same_generator_state_gives_the_same_result(rng):
    for draw in (lambda: keep_mask(torch.full((50,), 0.5), rng), lambda: random_permutation(50, rng)):
        state = rng.get_state()
        first, second = draw(), draw()
        rng.set_state(state)
        assert torch.equal(draw(), first)
        assert not torch.equal(second, first)


def test_a_permutation_has_every_node_once(rng):
    order = random_permutation(50, rng)
    assert order.dtype == torch.int64
    assert sorted(order.tolist()) == list(range(50))


def test_drop_weights_of_the_edges_of_a_star_by_hand():
    # s is 0 for the edges to a leaf (degree 1) and log 4 for those to the center; the mean is log 2.
    assert edge_drop_weights(star(), "degree").tolist() == pytest.approx([2.0] * 4 + [0.0] * 4)


def test_drop_weights_of_the_features_of_a_star_by_hand():
    # Importances: 4 for the first feature, which only the center has; 1 for the second, of one leaf, with any sign; 2
    # for the third, of two leaves. No node has the fourth, which gets the smallest, 1. To base 2 the logarithms are
    # 2, 0, 1 and 0, and their mean is 3/4.
    x = np.array([[1.0, 0, 0, 0], [0, -1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    for features in (x, sp.csr_array(x)):
        assert feature_drop_weights(star(features), "degree").tolist() == pytest.approx([0, 1.6, 0.8, 1.6])


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_probability_is_the_rate(kind):
    for weights in (edge_drop_weights(random_graph(), kind), feature_drop_weights(random_graph(sparse=True), kind)):
        assert weights.min() == 0
        drop = drop_probabilities(weights, 0.1, threshold=1.0)
        assert drop.max() < 1  # nothing is capped
        assert drop.mean().item() == pytest.approx(0.1, rel=1e-5)  # float32


def test_no_probability_is_above_the_threshold():
    weights = torch.tensor([0.0, 0.5, 1.0, 6.5])
    assert drop_probabilities(weights, 0.4).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.7])
    assert drop_probabilities(weights, 0.4, threshold=0.15).tolist() == pytest.approx([0.0, 0.1, 0.15, 0.15])
    assert not drop_probabilities(torch.zeros(3), 0.4).any()  # not NaN either


@pytest.mark.parametrize("kind", KINDS)
def test_edges_to_central_nodes_are_dropped_less(kind):
    graph = graph_of(nx.barabasi_albert_graph(60, 2, seed=0))
    order = centrality(graph, kind)[graph.edge_index[1]].argsort()
    drop = drop_probabilities(edge_drop_weights(graph, kind), 0.3, threshold=1.0)[order]
    assert (drop.diff() <= 1e-6).all()  # equal centralities differ by float32 rounding
    assert drop[0] > 2 * drop[-20]


DEGENERATE = {
    "all equal, a ring": graph_of(nx.cycle_graph(7)),
    "all equal, of degree 3": graph_of(nx.petersen_graph()),
    "all equal, without edges": graph_of(nx.empty_graph(4)),
    "one node": graph_of(nx.empty_graph(1)),
    "isolated nodes": Graph(torch.eye(5), torch.tensor([[0, 1], [1, 2]])),
    "an unused feature": star(torch.tensor([[1.0, 0.0, 2.0]]).repeat(5, 1)),
    "all features zero": star(torch.zeros(5, 3)),
    "two components": graph_of(nx.disjoint_union(nx.complete_graph(30), nx.path_graph(3)), torch.eye(33)),
    "directed": Graph(torch.eye(3), torch.tensor([[0, 1], [1, 2]]), directed=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs_have_finite_probabilities(name, kind):
    graph = DEGENERATE[name]
    central = centrality(graph, kind)
    assert ((central >= 0) & central.isfinite()).sum() == graph.n
    for weights, size in ((edge_drop_weights, graph.edge_index.shape[1]), (feature_drop_weights, graph.n_features)):
        drop = drop_probabilities(weights(graph, kind), 0.3)
        assert (drop.shape, drop.dtype) == ((size,), torch.float32)
        assert ((drop >= 0) & (drop <= 0.7)).all()  # false for NaN
        if "all equal" in name:
            assert drop.tolist() == pytest.approx([0.3] * size)


NETWORKS = {
    "hubs": nx.barabasi_albert_graph(50, 2, seed=1),
    "bipartite": nx.star_graph(6),
    "directed": nx.gnp_random_graph(30, 0.2, seed=3, directed=True),
    "isolated nodes": nx.disjoint_union(nx.path_graph(5), nx.empty_graph(3)),
    "directed, with dangling nodes": nx.gnp_random_graph(40, 0.05, seed=2, directed=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_pagerank_equals_that_of_networkx(name):
    expected = list(nx.pagerank(NETWORKS[name], tol=1e-14, max_iter=1000).values())
    assert centrality(graph_of(NETWORKS[name]), "pagerank").tolist() == pytest.approx(expected, rel=1e-6)  # float32


@pytest.mark.parametrize("name", ["hubs", "bipartite", "directed"])  # connected, so that it is unique
def test_eigenvector_centrality_equals_that_of_networkx(name):
    expected = list(nx.eigenvector_centrality(NETWORKS[name], tol=1e-12, max_iter=5000).values())
    # Both stop at a change of 1e-12 and the entries are above 1e-2; the result is float32.
    assert centrality(graph_of(NETWORKS[name]), "eigenvector").tolist() == pytest.approx(expected, rel=1e-5)


def test_degree_counts_incoming_edges():
    directed = Graph(torch.ones(3, 1), torch.tensor([[0, 1], [2, 2]]), directed=True)
    assert centrality(directed, "degree").tolist() == [0, 0, 2]
    assert centrality(star(), "degree").tolist() == [4, 1, 1, 1, 1]


def test_invalid_arguments_are_refused():
    for rate in (1.5, -0.1, math.nan):
        for refused in (
            lambda x: drop_probabilities(torch.ones(3), x),
            lambda x: drop_probabilities(torch.ones(3), 0.1, x),
        ):
            with pytest.raises(UserError, match=f"between 0 and 1, not {rate}"):
                refused(rate)
    with pytest.raises(UserError, match="Unknown centrality 'pagerang'; did you mean 'pagerank'"):
        centrality(star(), "pagerang")
