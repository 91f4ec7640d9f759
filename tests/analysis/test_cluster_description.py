import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.analysis.cluster_description import describe_clusters
from afgrl.analysis.traits import given_traits
from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError

LABELS = np.array([0, 0, 0, 1, 1], dtype=np.int32)
DIRECTIONS = np.array([[1, 0], [1, 0.1], [1, 0.5], [0, 1], [0.1, 1]], dtype=np.float32)


def describe(labels, features, names=None, vectors=None, ids=None):
    n = len(labels)
    vectors = np.ones((n, 2), dtype=np.float32) if vectors is None else vectors
    ids = np.arange(n) if ids is None else ids
    ring = np.stack([np.arange(n), np.roll(np.arange(n), 1)])
    edges = np.concatenate([ring, ring[::-1]], axis=1)
    return describe_clusters(np.asarray(labels, np.int32), vectors, ids, given_traits(features, names), edges)


def listed_features(clusters, number):
    return [(row["name"], row["here"], row["elsewhere"]) for row in clusters[number]["features"]]


def test_a_description_by_hand():
    #        everywhere, here only, more here, elsewhere only
    x = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1]], dtype=np.float32)
    names = ["everywhere", "here", "mostly", "there"]
    ids = np.array(list("abcde"), dtype=object)
    clusters = describe(LABELS, csr_from_scipy(sp.csr_array(x)), names, DIRECTIONS, ids)
    assert listed_features(clusters, 0) == [("here", 1.0, 0.0), ("mostly", 0.666667, 0.0)]
    assert listed_features(clusters, 1) == [("there", 1.0, 0.0)]
    assert [cluster["size"] for cluster in clusters] == [3, 2]
    assert [cluster["cluster"] for cluster in clusters] == [0, 1]
    assert clusters[0]["closest"] == ["b", "a", "c"]  # the mean direction is (1, 0.18)
    # Lower means of measured features are distinctive too; binary ones are the same, dense or sparse.
    dense = describe(LABELS, torch.from_numpy(3 * x), names, DIRECTIONS, ids)
    assert {name for name, *_ in listed_features(dense, 0)} == {"here", "mostly", "there"}
    assert describe(LABELS, torch.from_numpy(x), names, DIRECTIONS, ids) == clusters


def test_features_are_ordered_by_standardized_difference():
    draw = np.random.default_rng(0)
    x, labels = draw.normal(size=(300, 40)), draw.integers(0, 3, 300)
    x[labels == 1] += np.linspace(0, 1, 40)
    listed = listed_features(describe(labels, torch.from_numpy(x)), 1)
    here, others = x[labels == 1], x[labels != 1]
    extended = np.vstack([here, others.mean(0)])  # nearly the same as one more node from elsewhere
    score = np.abs(extended.mean(0) - others.mean(0)) / np.sqrt((extended.var(0) + others.var(0)) / 2)
    assert [name for name, *_ in listed] == [f"feature {j}" for j in np.argsort(-score)[:10]]
    for name, inside, outside in listed:
        j = int(name.split()[1])
        assert (inside, outside) == pytest.approx((here[:, j].mean(), others[:, j].mean()), abs=1e-6)


def test_of_sparse_features_the_share_of_nodes_is_described_and_not_their_values():
    draw = np.random.default_rng(1)
    x = (draw.random((200, 30)) < 0.2) * draw.random((200, 30))  # such as TF-IDF
    labels = draw.integers(0, 4, 200)
    x[labels == 2, 3] += 1
    name, here, elsewhere = listed_features(describe(labels, csr_from_scipy(sp.csr_array(x))), 2)[0]
    assert (name, here) == ("feature 3", 1.0)
    assert elsewhere == pytest.approx((x[labels != 2, 3] > 0).mean(), abs=1e-6)


def test_rare_words_rank_below_common_ones():
    x = np.zeros((3000, 202), dtype=np.float32)
    x[2000:2600, 0] = 1  # in 60 % of the cluster
    x[:100, 0] = 1  # and in 5 % of the other nodes
    x[2000:2300, 1] = 1  # in 30 % of the cluster only
    for word in range(2, 202):  # each in one node of the cluster
        x[2000 + word, word] = 1
    clusters = describe(np.repeat([0, 1], [2000, 1000]), csr_from_scipy(sp.csr_array(x)))
    assert [name for name, *_ in listed_features(clusters, 1)][:2] == ["feature 0", "feature 1"]


def test_in_a_small_cluster_the_features_of_all_nodes_come_first():
    x = np.zeros((103, 3), dtype=np.float32)
    x[100:, 0] = 1  # all three nodes of the cluster, and no other
    x[100, 1] = 1  # one of the three, and no other
    x[::3, 2] = 1  # every third node
    clusters = describe(np.repeat([0, 1], [100, 3]), csr_from_scipy(sp.csr_array(x)))
    assert listed_features(clusters, 1)[0][0] == "feature 0"


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e6])
@pytest.mark.parametrize("labels", [LABELS, np.arange(1000) % 7], ids=["5 nodes", "1000 nodes"])
def test_constant_features_are_not_listed(constant, labels):
    x = np.full((len(labels), 3), constant, dtype=np.float32)
    for features in (torch.from_numpy(x), torch.from_numpy(x).double() / 3, csr_from_scipy(sp.csr_array(x))):
        assert all(cluster["features"] == [] for cluster in describe(labels, features))


def test_a_single_cluster_has_no_distinctive_features():
    clusters = describe([0] * 5, torch.eye(5))
    assert clusters[0]["features"] == []
    assert json.loads(json.dumps(clusters, allow_nan=False)) == clusters


def test_sparse_features_are_never_converted_to_dense(monkeypatch):
    x = csr_from_scipy(sp.random_array((20_000, 10_000), density=1e-4, rng=np.random.default_rng(0)))
    monkeypatch.setattr(torch.Tensor, "to_dense", None)
    clusters = describe(np.arange(20_000) % 7, x)
    assert len(clusters[6]["features"]) == 10


def test_the_number_of_feature_names_is_checked():
    with pytest.raises(UserError, match="There are 5 features, but 2 names"):
        describe(LABELS, torch.eye(5), ["a", "b"])
