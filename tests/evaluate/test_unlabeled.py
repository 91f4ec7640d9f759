"""Measures without labels against hand-computed cases, brute force and independent libraries."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
import torch
from sklearn.metrics import roc_auc_score

from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError
from afgrl.evaluate.similarity import cosine_neighbors
from afgrl.evaluate.unlabeled.geometry import collapse, effective_rank, hubness, neighbor_overlap
from afgrl.evaluate.unlabeled.information import information_shares
from afgrl.evaluate.unlabeled.links import (
    LinkScores,
    auc_difference_error,
    hide_edges,
    link_scores,
    pair_cosines,
    sample_edges,
)
from afgrl.evaluate.unlabeled.partition import conductances, modularity, size_entropy
from afgrl.graph import Graph
from afgrl.ops.sparse.rows import unit_rows
from tests.conftest import communities, weighted


def as_csr(x):
    return csr_from_scipy(sp.csr_array(x.numpy()))


def test_effective_rank_by_hand():
    assert effective_rank(torch.eye(5)) == pytest.approx(5)
    assert effective_rank(torch.ones(7, 3)) == pytest.approx(1, abs=1e-6)  # zero singular values are 1e-8 here
    # Singular values 3 and 1: p = 3/4 and 1/4, exp(-(3/4 log 3/4 + 1/4 log 1/4)) = 4 / 3^(3/4).
    assert effective_rank(torch.diag(torch.tensor([3.0, 1.0]))) == pytest.approx(4 / 3**0.75)
    assert effective_rank(torch.zeros(3, 2)) == 0


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_effective_rank_is_that_of_the_singular_values(shape, rng):
    x = torch.randn(shape, generator=rng)
    expected = np.exp(scipy.stats.entropy(np.linalg.svd(x.numpy(), compute_uv=False)))
    assert effective_rank(x) == pytest.approx(expected, rel=1e-5)  # NumPy decomposes in float32
    assert effective_rank(as_csr(x)) == pytest.approx(expected, rel=1e-5)


def test_collapse():
    same = torch.tensor([[0.6, 0.8, 0.0]]).repeat(9, 1)
    assert collapse(same) == pytest.approx((1.0, 1.0))
    spread = collapse(torch.cat([torch.eye(3), -torch.eye(3)]))
    assert spread == pytest.approx((0.0, 0.0))
    x = torch.cat([torch.eye(2).repeat(4, 1), torch.full((8, 2), 0.5)], dim=1)  # two of four columns are constant
    unit = unit_rows(x)
    expected = (unit @ unit.mean(0) / unit.mean(0).norm()).mean()
    for rows in (unit, as_csr(unit)):
        found = collapse(rows)
        assert found.mean_cosine == pytest.approx(float(expected))
        assert found.constant_columns == 0.5


def test_hubness_is_the_skewness_of_the_occurrences(rng):
    neighbors = cosine_neighbors(torch.randn(60, 5, generator=rng), 4)
    counts = np.bincount(neighbors.numpy().ravel(), minlength=60)
    assert hubness(neighbors) == pytest.approx(scipy.stats.skew(counts))
    ring = torch.tensor([[1], [2], [0]])  # every row is a neighbor once
    assert hubness(ring) == 0


def test_neighbor_overlap_counts_common_neighbors_in_any_order():
    first = torch.tensor([[1, 2], [0, 2], [0, 1]])
    second = torch.tensor([[2, 1], [0, 3], [4, 5]])
    assert neighbor_overlap(first, second) == pytest.approx((2 + 1 + 0) / 6)
    with pytest.raises(UserError, match="different shapes"):
        neighbor_overlap(first, second[:, :1])


@pytest.fixture(params=["unweighted", "weighted"])
def graph_and_network(request):
    graph = communities(n_groups=3, size=12, n_isolated=1)
    graph = weighted(graph) if request.param == "weighted" else graph
    network = nx.Graph()
    network.add_nodes_from(range(graph.n))
    weight = torch.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
    ends = graph.edge_index.T.tolist()
    network.add_weighted_edges_from((a, b, w) for (a, b), w in zip(ends, weight.tolist(), strict=True))
    return graph, network


def test_modularity_and_conductance_are_those_of_networkx(graph_and_network):
    graph, network = graph_and_network
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 4, graph.n))
    labels[:12] = 0
    groups = [set(torch.nonzero(labels == number).flatten().tolist()) for number in range(4)]
    assert modularity(labels, graph) == pytest.approx(nx.community.modularity(network, groups))
    expected = [nx.conductance(network, group, weight="weight") for group in groups]
    assert conductances(labels, graph).tolist() == pytest.approx(expected)


def test_a_directed_edge_counts_at_both_of_its_ends():
    one_way = Graph(np.ones((5, 1)), [[0, 1, 3, 2], [1, 2, 4, 3]], directed=True)
    both_ways = replace(one_way, directed=False)
    labels = torch.tensor([0, 0, 0, 1, 1])
    assert modularity(labels, one_way) == pytest.approx(modularity(labels, both_ways))
    assert conductances(labels, one_way).tolist() == pytest.approx(conductances(labels, both_ways).tolist())


def test_clusters_of_a_graph_without_edges():
    graph = Graph(np.ones((3, 1)), torch.empty(2, 0, dtype=torch.int64))
    assert modularity(torch.tensor([0, 1, 1]), graph) == 0
    assert conductances(torch.tensor([0, 1, 1]), graph).isnan().all()


def test_entropy_of_cluster_sizes():
    assert size_entropy(torch.tensor([0, 1, 2, 2, 1, 0])) == pytest.approx(1)
    expected = scipy.stats.entropy([9, 1]) / np.log(2)
    assert size_entropy(torch.tensor([0] * 9 + [1])) == pytest.approx(expected)
    assert size_entropy(torch.zeros(4, dtype=torch.int64)) == 0


def edges_of(graph):
    return {tuple(sorted(pair)) for pair in graph.edge_index.T.tolist()}


@pytest.mark.parametrize("change", [lambda graph: graph, weighted], ids=["unweighted", "weighted"])
def test_hidden_edges_are_gone_and_the_other_pairs_never_were_edges(change):
    graph = change(communities(size=40))
    hidden = hide_edges(graph, 0.2, np.random.default_rng(0), most=10_000)
    positive, negative = (
        {tuple(sorted(pair)) for pair in pairs.T.tolist()} for pairs in (hidden.positive, hidden.negative)
    )
    assert len(positive) == hidden.positive.shape[1] == round(0.2 * graph.n_edges)
    assert hidden.negative.shape[1] == 10 * len(positive)
    assert edges_of(hidden.graph) == edges_of(graph) - positive
    assert not negative & edges_of(graph)
    assert all(a != b for a, b in negative)
    assert hidden.graph.n == graph.n
    if graph.edge_weight is not None:
        of = {tuple(pair): w for pair, w in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)}
        kept = zip(hidden.graph.edge_index.T.tolist(), hidden.graph.edge_weight.tolist(), strict=True)
        assert all(of[tuple(pair)] == w for pair, w in kept)
    few = hide_edges(graph, 0.2, np.random.default_rng(0), most=7)
    assert (few.positive.shape, few.negative.shape) == ((2, 7), (2, 70))
    assert few.graph.n_edges == hidden.graph.n_edges  # as many are hidden, only fewer are scored


def test_edge_samples():
    graph = communities()
    sample = sample_edges(graph, 0.9, np.random.default_rng(1))
    assert sample.n_edges == round(0.9 * graph.n_edges)
    assert edges_of(sample) < edges_of(graph)


def test_graphs_that_are_too_small_or_complete_are_one_sentence():
    path = lambda n: Graph(np.eye(n), np.stack([np.arange(n - 1), np.arange(1, n)]))  # noqa: E731
    with pytest.raises(UserError, match="at least 390 edges, but the graph has 389"):
        hide_edges(path(390), 0.05, np.random.default_rng(0), 10)
    assert hide_edges(path(391), 0.05, np.random.default_rng(0), 100).positive.shape == (2, 20)
    complete = Graph(np.eye(29), np.stack(np.triu_indices(29, 1)))
    with pytest.raises(UserError, match="nearly all nodes are linked"):
        hide_edges(complete, 0.05, np.random.default_rng(0), 10)


def test_the_error_of_a_difference_of_aucs():
    """By the definition of DeLong et al., and against the spread over many draws of correlated scores."""
    draw = np.random.default_rng(0)

    def scores(p, q):
        shared = [draw.normal(size=size) + gain for size, gain in ((p, 1.0), (q, 0.0))]
        return [LinkScores(*(draw.normal(size=len(each)) + each for each in shared)) for _ in range(2)]

    first, second = scores(12, 30)
    below, above = [], []
    for found in (first, second):
        wins = found.positive[:, None] > found.negative
        below.append(wins.mean(1))
        above.append(wins.mean(0))
    variance = np.var(below[0] - below[1], ddof=1) / 12 + np.var(above[0] - above[1], ddof=1) / 30
    assert auc_difference_error(first, second) == pytest.approx(variance**0.5)
    assert auc_difference_error(first, first) == 0
    differences, errors = [], []
    for _ in range(400):
        first, second = scores(60, 240)
        differences.append(first.auc - second.auc)
        errors.append(auc_difference_error(first, second))
    # The spread of 400 draws has a standard error of 3.5 %.
    assert np.mean(errors) == pytest.approx(np.std(differences), rel=0.12)


def test_link_auc_is_the_share_of_pairs_in_the_right_order(rng):
    x = torch.randint(0, 3, (20, 3), generator=rng).float()  # few values, so there are ties
    draw = np.random.default_rng(0)
    positive, negative = draw.integers(0, 20, (2, 30)), draw.integers(0, 20, (2, 25))
    unit = unit_rows(x)
    first, second = (np.array([float(unit[a] @ unit[b]) for a, b in pairs.T]) for pairs in (positive, negative))
    above = first[:, None] - second[None]
    expected = ((above > 1e-6).sum() + 0.5 * (np.abs(above) <= 1e-6).sum()) / above.size
    # Rounding turns some ties into an order; few of 750 comparisons are affected.
    assert link_scores(x, positive, negative).auc == pytest.approx(expected, abs=0.05)
    ends = np.repeat([1, 0], [30, 25])
    cosines = np.concatenate([pair_cosines(x, positive), pair_cosines(x, negative)])
    assert link_scores(x, positive, negative).auc == pytest.approx(roc_auc_score(ends, cosines))
    assert pair_cosines(x, positive) == pytest.approx(first, abs=1e-6)
    assert pair_cosines(as_csr(x), positive) == pytest.approx(first, abs=1e-6)
    assert link_scores(torch.eye(4), np.array([[0], [0]]), np.array([[1], [2]])).auc == 1
    assert link_scores(torch.ones(4, 2), np.array([[0], [1]]), np.array([[1], [2]])).auc == 0.5


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_what_is_known_about_nodes(layout):
    x = torch.tensor([[1.0, 0], [0, 2], [0, 0], [0, -3], [0, 0]])
    graph = Graph(x if layout == "dense" else as_csr(x), [[0, 1], [1, 2]])
    assert information_shares(graph) == {"both": 0.4, "features": 0.2, "neighbors": 0.2, "nothing": 0.2}
    of_features, of_edges = (information_shares(graph, frozenset({name})) for name in ("features", "edges"))
    assert of_features == {"both": 0, "features": 0.6, "neighbors": 0, "nothing": 0.4}
    assert of_edges == {"both": 0, "features": 0, "neighbors": 0.6, "nothing": 0.4}
