"""The measures that benchmarks/verdict.py tries, against brute force and scikit-learn, and how it counts answers."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

from afgrl.csr import csr_from_scipy
from afgrl.evaluate.unlabeled.links import hide_edges
from afgrl.graph import Graph
from benchmarks.verdict import Rule, counts, forgets, gain, left_out, says
from benchmarks.verdict_measures import feature_agreement, matched_pairs
from tests.conftest import communities


def hub_and_communities():
    """Three groups, and a node 0 that is linked to two thirds of the others."""
    graph = communities()
    spokes = np.stack([np.zeros(40, dtype=int), np.arange(1, 41)])
    return Graph(graph.x, np.concatenate([graph.edge_index.numpy(), spokes], axis=1))


def test_matched_pairs_have_the_degrees_of_the_hidden_edges():
    graph = hub_and_communities()
    positive = hide_edges(graph, 0.3, np.random.default_rng(0), most=10_000).positive
    matched = matched_pairs(graph, positive, np.random.default_rng(1), most=10_000)
    edges, ends = {tuple(pair) for pair in graph.edge_index.T.tolist()}, positive.ravel()
    assert matched.shape == (2, 10 * positive.shape[1])
    assert not {tuple(pair) for pair in matched.T.tolist()} & edges
    assert (matched[0] != matched[1]).all()
    assert set(matched.ravel()) <= set(ends)
    # A pair is drawn with probability ∝ d_a d_b if it has no edge, d being the number of hidden edges of a node.
    degree = np.bincount(ends, minlength=graph.n)
    expected = np.outer(degree, degree).astype(float)
    expected[np.diag_indices(graph.n)] = 0
    expected[tuple(np.array(sorted(edges)).T)] = 0
    expected /= expected.sum()
    counted = np.bincount(matched.ravel(), minlength=graph.n) / matched.size
    # The standard deviation of a share of up to .1 among about 1,500 ends is below .008.
    assert counted == pytest.approx(expected.sum(1), abs=0.03)
    assert matched_pairs(graph, positive, np.random.default_rng(1), most=7).shape == (2, 7)
    # Between the ends of one edge there is no other pair.
    assert matched_pairs(graph, positive[:, :1], np.random.default_rng(1), most=7).shape == (2, 0)


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_feature_agreement_is_the_mean_cosine_of_centered_features(layout, rng):
    x = torch.randn(30, 6, generator=rng) * (torch.rand(30, 6, generator=rng) < 0.5) + 0.3 * torch.eye(30, 6)
    x[[4, 9]] = 0
    neighbors = torch.stack([torch.randperm(30, generator=rng)[:4] for _ in range(30)])
    described = x.numpy().any(1)
    unit = normalize(x.numpy())
    cosines = cosine_similarity(unit - unit[described].mean(0))
    pairs = [(i, j) for i, row in enumerate(neighbors.tolist()) for j in row if described[i] and described[j]]
    expected = np.mean([cosines[pair] for pair in pairs])
    found = feature_agreement(x if layout == "dense" else csr_from_scipy(sp.csr_array(x.numpy())), neighbors)
    assert found == pytest.approx(expected, abs=1e-5)


def test_feature_agreement_of_similar_opposite_and_unknown_nodes():
    x = torch.tensor([[1.0, 0], [2, 0], [0, 3], [0, 1]])
    assert feature_agreement(x, torch.tensor([[1], [0], [3], [2]])) == pytest.approx(1)
    assert feature_agreement(x, torch.tensor([[2], [3], [0], [1]])) == pytest.approx(-1)
    assert feature_agreement(x, torch.tensor([[1, 2], [0, 3], [3, 0], [2, 1]])) == pytest.approx(0, abs=1e-6)
    assert feature_agreement(torch.zeros(4, 2), torch.tensor([[1], [0], [3], [2]])) == 0
    assert feature_agreement(torch.ones(4, 2), torch.tensor([[1], [0], [3], [2]])) == 0


def record(link, matched, agreement, *, keeps=False, labels=0.0):
    """Trained vectors that differ from the one baseline by these values."""
    same = {"modularity": 0.5, "conductance": 0.5, "effective_rank": 50.0, "hubness": 1.0, "mean_cosine": 0.1}
    base = same | {
        "link_auc": 0.5,
        "matched_auc": 0.5,
        "feature_agreement": 0.4,
        "accuracy": 50.0,
        "nmi": 0.5,
        "sim@5": 0.5,
    }
    own = base | {"link_auc": 0.5 + link, "matched_auc": 0.5 + matched, "feature_agreement": agreement}
    own |= {"accuracy": 50 + 10 * labels, "nmi": 0.5 + labels, "sim@5": 0.5 + labels}
    return {"keeps_untrained": keeps, "vectors": {"trained": own, "svd": base}}


def test_what_a_rule_says():
    link, both = Rule(("link_auc",)), Rule(("link_auc", "matched_auc"))
    assert [says(record(gain, 0, 0.4), link) for gain in (0.1, 0, -0.1)] == [1, None, -1]
    assert says(record(0, 0, 0.4), Rule(("link_auc",), has_equal=True)) == 0
    assert says(record(-0.1, 0, 0.4, keeps=True), link) is None
    assert [says(record(0.1, gain, 0.4), both) for gain in (0.1, 0, -0.1)] == [1, None, None]
    guarded = Rule(("link_auc",), is_guarded=True)
    assert [says(record(0.1, 0, agreement), guarded) for agreement in (0.21, 0.19)] == [1, None]
    assert forgets(record(0.1, 0, 0.19))
    assert says(record(-0.1, 0, 0.1), guarded) == -1


def test_answers_are_counted():
    pairs = [(1, 1), (1, -1), (-1, 0), (None, 1), (-1, -1)]
    assert counts(pairs) == {"decided": 4, "agreed": 2, "opposite": 1}
    assert gain(pairs) == 0
    assert gain([(1, 1), (1, -1), (1, 0), (None, 0)]) == -1


def test_a_graph_does_not_choose_its_own_rule():
    """On one graph only the link AUC is right, on the other only the matched AUC: each is answered by the other's."""
    every = [
        ("a", "x", record(0.1, -0.1, 0.4, labels=0.2)),
        ("b", "x", record(-0.1, 0.1, 0.4, labels=0.2)),
    ]
    assert left_out(every, 0) == {"decided": 2, "agreed": 0, "opposite": 2}
