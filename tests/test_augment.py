import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl import augment
from afgrl.augment import centrality, drop_probabilities, edge_weights, feature_weights, kept, uniform
from afgrl.errors import UserError
from afgrl.graph import Graph
from tests.conftest import weighted

KINDS = ["degree", "pagerank", "eigenvector"]


def bound(rate, size):
    """Four standard errors of a share: 1 draw in 16,000 would miss it, and the seeds are fixed."""
    return 4 * math.sqrt(rate * (1 - rate) / size)


def graph_of(network, x=None):
    edges = torch.tensor(list(network.edges), dtype=torch.int64).reshape(-1, 2).T
    return Graph(torch.ones(len(network), 1) if x is None else x, edges, directed=network.is_directed())


def star(x=None):
    """Node 0 in the middle of 1 … 4. Its edges, sorted: four from it, then four to it."""
    return graph_of(nx.star_graph(4), x)


def named_graph(sparse=False, directed=False):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 300)) * (draw.random((200, 300)) < 0.2)
    names = [f"node {i}" for i in range(200)]
    return Graph(sp.csr_array(x) if sparse else x, draw.integers(0, 200, (2, 3000)), names, directed)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.7])
def test_as_many_are_dropped_as_asked_for(rate, rng):
    mask = kept(uniform(40_000, rate), rng)
    assert torch.equal(mask.unique(), torch.tensor([0.0, 1.0]))
    assert abs(mask.mean().item() - (1 - rate)) < bound(rate, 40_000)


def test_each_has_its_own_probability(rng):
    share = kept(torch.tensor([0.0, 0.25, 0.75, 1.0]).repeat(40_000, 1), rng).mean(0)
    assert (share[0], share[3]) == (1, 0)  # all and none, not nearly so
    assert (share[1:3] - torch.tensor([0.75, 0.25])).abs().max() < bound(0.25, 40_000)


def test_draws_and_places_are_independent(rng):
    first, second = (kept(uniform(40_000, 0.5), rng) for _ in range(2))
    assert abs((first == second).float().mean() - 0.5) < bound(0.5, 40_000)
    assert abs((first[1:] == first[:-1]).float().mean() - 0.5) < bound(0.5, 40_000)


def test_the_same_state_gives_the_same_result(rng):
    graph = named_graph()
    for draw in (
        lambda: kept(uniform(50, 0.5), rng),
        lambda: augment.drop_edges(graph, 0.5, rng).edge_index,
        lambda: augment.mask_features(graph, 0.5, rng).x,
    ):
        state = rng.get_state()
        first, second = draw(), draw()
        rng.set_state(state)
        assert torch.equal(draw(), first)
        assert not torch.equal(second, first)


def test_weights_of_a_star_by_hand():
    # s is 0 for the edges to a leaf (degree 1) and log 4 for those to the middle; the mean is log 2.
    assert edge_weights(star(), "degree").tolist() == pytest.approx([2.0] * 4 + [0.0] * 4)


def test_weights_of_a_stars_features_by_hand():
    # The middle alone has the first, 4; a leaf the second, 1, whatever its sign; two leaves the third, 2; nobody the
    # fourth, which counts as the rarest, 1. To base 2 the logarithms are 2, 0, 1, 0, and their mean 3/4.
    x = np.array([[1.0, 0, 0, 0], [0, -1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    for features in (x, sp.csr_array(x)):
        assert feature_weights(star(features), "degree").tolist() == pytest.approx([0, 1.6, 0.8, 1.6])


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_probability_is_the_rate(kind):
    for weights in (edge_weights(named_graph(), kind), feature_weights(named_graph(sparse=True), kind)):
        assert weights.min() == 0
        drop = drop_probabilities(weights, 0.1, threshold=1.0)
        assert drop.max() < 1  # nothing is capped
        assert drop.mean().item() == pytest.approx(0.1, rel=1e-5)  # of float32 numbers


def test_no_probability_is_above_the_threshold():
    weights = torch.tensor([0.0, 0.5, 1.0, 6.5])
    assert drop_probabilities(weights, 0.4).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.7])
    assert drop_probabilities(weights, 0.4, threshold=0.15).tolist() == pytest.approx([0.0, 0.1, 0.15, 0.15])
    assert not drop_probabilities(torch.zeros(3), 0.4).any()  # and none is NaN


@pytest.mark.parametrize("kind", KINDS)
def test_edges_to_central_nodes_are_dropped_less(kind):
    graph = graph_of(nx.barabasi_albert_graph(60, 2, seed=0))
    order = centrality(graph, kind)[graph.edge_index[1]].argsort()
    drop = drop_probabilities(edge_weights(graph, kind), 0.3, threshold=1.0)[order]
    assert (drop.diff() <= 1e-6).all()  # equal ones differ by the rounding of float32
    assert drop[0] > 2 * drop[-20]


DEGENERATE = {
    "all alike, a ring": graph_of(nx.cycle_graph(7)),
    "all alike, of degree 3": graph_of(nx.petersen_graph()),
    "all alike, without edges": graph_of(nx.empty_graph(4)),
    "one node": graph_of(nx.empty_graph(1)),
    "isolated nodes": Graph(torch.eye(5), torch.tensor([[0, 1], [1, 2]])),
    "a feature nobody has": star(torch.tensor([[1.0, 0.0, 2.0]]).repeat(5, 1)),
    "no features at all": star(torch.zeros(5, 3)),
    "two components": graph_of(nx.disjoint_union(nx.complete_graph(30), nx.path_graph(3)), torch.eye(33)),
    "a way, and no way back": Graph(torch.eye(3), torch.tensor([[0, 1], [1, 2]]), directed=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs_have_finite_probabilities(name, kind):
    graph = DEGENERATE[name]
    central = centrality(graph, kind)
    assert ((central >= 0) & central.isfinite()).sum() == graph.n
    for weights, size in ((edge_weights, graph.edge_index.shape[1]), (feature_weights, graph.n_features)):
        drop = drop_probabilities(weights(graph, kind), 0.3)
        assert (drop.shape, drop.dtype) == ((size,), torch.float32)
        assert ((drop >= 0) & (drop <= 0.7)).all()  # NaN is neither
        if "all alike" in name:
            assert drop.tolist() == pytest.approx([0.3] * size)


NETWORKS = {
    "hubs": nx.barabasi_albert_graph(50, 2, seed=1),
    "bipartite": nx.star_graph(6),
    "directed": nx.gnp_random_graph(30, 0.2, seed=3, directed=True),
    "isolated nodes": nx.disjoint_union(nx.path_graph(5), nx.empty_graph(3)),
    "directed, with ends": nx.gnp_random_graph(40, 0.05, seed=2, directed=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_pagerank_is_that_of_networkx(name):
    expected = list(nx.pagerank(NETWORKS[name], tol=1e-14, max_iter=1000).values())
    assert centrality(graph_of(NETWORKS[name]), "pagerank").tolist() == pytest.approx(expected, rel=1e-6)  # float32


@pytest.mark.parametrize("name", ["hubs", "bipartite", "directed"])  # connected, so that there is but one
def test_eigenvector_centrality_is_that_of_networkx(name):
    expected = list(nx.eigenvector_centrality(NETWORKS[name], tol=1e-12, max_iter=5000).values())
    # Both stop at a change of 1e-12, of entries above 1e-2; then float32.
    assert centrality(graph_of(NETWORKS[name]), "eigenvector").tolist() == pytest.approx(expected, rel=1e-5)


def test_degree_counts_the_edges_that_come_in():
    way = Graph(torch.ones(3, 1), torch.tensor([[0, 1], [2, 2]]), directed=True)
    assert centrality(way, "degree").tolist() == [0, 0, 2]
    assert centrality(star(), "degree").tolist() == [4, 1, 1, 1, 1]


@pytest.mark.parametrize("directed", [False, True])
def test_dropping_edges_gives_a_graph(directed, rng):
    graph, before = (named_graph(directed=directed) for _ in range(2))
    fewer = augment.drop_edges(graph, 0.3, rng)
    assert torch.equal(graph.edge_index, before.edge_index)
    assert torch.equal(fewer.x, before.x)
    assert (fewer.ids == before.ids).all()
    left, had = (set(zip(*part.edge_index.tolist(), strict=True)) for part in (fewer, before))
    assert left < had  # which has no loops
    assert (left == {(v, u) for u, v in left}) == (not directed)
    assert abs(fewer.n_edges / before.n_edges - 0.7) < bound(0.3, before.n_edges)  # an undirected edge is one draw
    assert torch.equal(augment.drop_edges(graph, 0.0, rng).edge_index, before.edge_index)
    assert augment.drop_edges(graph, 1.0, rng).n_edges == 0
    heavy = weighted(graph)
    fewer = augment.drop_edges(heavy, 0.3, rng)
    keys = heavy.edge_index[0] * graph.n + heavy.edge_index[1]
    place = torch.searchsorted(keys, fewer.edge_index[0] * graph.n + fewer.edge_index[1])
    assert torch.equal(fewer.edge_weight, heavy.edge_weight[place])


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_masked_for_all_nodes(sparse, rng):
    graph, before = named_graph(sparse), named_graph(sparse)
    masked = augment.mask_features(graph, 0.4, rng)
    assert torch.equal(graph.x.to_dense(), before.x.to_dense())
    assert masked.x.layout == before.x.layout
    assert list(masked.ids) == list(before.ids)
    assert torch.equal(masked.edge_index, before.edge_index)
    stays = (masked.x.to_dense() != 0).any(0)
    assert torch.equal(masked.x.to_dense(), before.x.to_dense() * stays)
    assert abs(stays.float().mean() - 0.6) < bound(0.4, 300)  # every feature has somebody
    assert torch.equal(stays, (augment.mask_features(named_graph(), 0.4, rng.manual_seed(0)).x != 0).any(0))


def test_what_is_not_possible_is_said(rng):
    for rate in (1.5, -0.1, math.nan):
        for refused in (lambda x: augment.drop_edges(star(), x, rng), lambda x: drop_probabilities(torch.ones(3), x)):
            with pytest.raises(UserError, match=f"between 0 and 1, not {rate}"):
                refused(rate)
    with pytest.raises(UserError, match="no centrality 'pagerang'; did you mean 'pagerank'"):
        centrality(star(), "pagerang")
