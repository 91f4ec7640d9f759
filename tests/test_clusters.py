import json

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.clusters import GIVEN, MODULARITY, Clustering, _fewest, cluster, cluster_run, describe, modularity
from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError
from afgrl.runs import Run


def groups(n_groups, n=600, width=32, noise=0.3, seed=0):
    """Directions around ``n_groups`` random ones, the last group twice as large as the first."""
    draw = np.random.default_rng(seed)
    shares = np.linspace(1, 2, n_groups)
    own = np.sort(draw.choice(n_groups, n, p=shares / shares.sum()))
    vectors = draw.normal(size=(n_groups, width))[own] + noise * draw.normal(size=(n, width))
    return (vectors * draw.uniform(0.1, 10, (n, 1))).astype(np.float32), own


@pytest.mark.parametrize("n_groups", [2, 3, 7, 11, 15])
def test_the_number_of_clear_groups_is_found(n_groups):
    vectors, own = groups(n_groups, n=1500)
    found = cluster(vectors)
    assert found.k == n_groups
    assert len(set(zip(found.labels.tolist(), own.tolist(), strict=True))) == n_groups  # one to one
    assert found.criterion == MODULARITY
    assert dict(found.tried)[n_groups] > 0.4


def test_of_many_clear_groups_few_are_merged():
    assert 24 <= cluster(groups(26, n=4000, noise=0.2)[0]).k <= 28


def test_clusters_are_numbered_by_falling_size():
    vectors, own = groups(5)
    found = cluster(vectors, 5)
    assert found.labels.dtype == np.int32
    assert np.bincount(found.labels).tolist() == sorted(np.bincount(own).tolist(), reverse=True)
    assert (found.k, found.criterion, found.tried) == (5, GIVEN, ())


def test_the_same_seed_gives_the_same_clusters():
    vectors, _ = groups(6, noise=1.5)
    first, second = cluster(vectors, seed=3), cluster(vectors, seed=3)
    assert np.array_equal(first.labels, second.labels)
    assert first.tried == second.tried


def test_only_directions_count():
    vectors, _ = groups(4)
    longer = vectors * np.linspace(1, 50, len(vectors), dtype=np.float32)[:, None]
    assert np.array_equal(cluster(vectors, 4).labels, cluster(longer, 4).labels)


def test_more_rows_than_k_means_starts_from(monkeypatch):
    monkeypatch.setattr("afgrl.clusters.STARTING", 100)
    monkeypatch.setattr("afgrl.clusters.JUDGED", 150)
    vectors, own = groups(4, n=1000)
    found = cluster(vectors)
    assert found.k == 4
    assert len(set(zip(found.labels.tolist(), own.tolist(), strict=True))) == 4


def test_modularity_is_networkx_s():
    draw = torch.Generator().manual_seed(0)
    neighbors = torch.stack([torch.randperm(39, generator=draw)[:4] for _ in range(40)])
    neighbors = (torch.arange(40).unsqueeze(1) + 1 + neighbors) % 40  # any but the row itself
    labels = torch.randint(5, (40,), generator=draw)
    graph = nx.MultiGraph([(i, int(j)) for i in range(40) for j in neighbors[i]])
    parts = [set(torch.where(labels == part)[0].tolist()) for part in range(5)]
    assert modularity(labels, neighbors) == pytest.approx(nx.community.modularity(graph, parts), abs=1e-12)


def test_the_fewest_that_are_as_good_as_the_best():
    assert _fewest({2: 0.4, 3: 0.69, 4: 0.7, 8: 0.71, 12: 0.6}) == 4  # 0.30 is within 4 % of 0.29, 0.31 is not
    assert _fewest({1: 0.0, 2: -0.1}) == 1


@pytest.mark.parametrize("k", [None, 1])
def test_one_node(k):
    found = cluster(np.ones((1, 3), dtype=np.float32), k)
    assert (found.k, found.labels.tolist()) == (1, [0])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_a_handful_of_nodes(n):
    found = cluster(np.eye(n, dtype=np.float32))
    assert found.k <= n
    assert sorted(set(found.labels.tolist())) == list(range(found.k))


@pytest.mark.parametrize("k", [None, 7])
def test_rows_that_coincide_are_one_cluster(k):
    found = cluster(np.ones((50, 3), dtype=np.float32), k)
    assert (found.k, set(found.labels.tolist())) == (1, {0})


def test_no_more_clusters_than_there_are_distinct_rows():
    found = cluster(np.repeat(np.eye(3, dtype=np.float32), 20, axis=0), 10)
    assert found.k == 3
    assert np.bincount(found.labels).tolist() == [20, 20, 20]


def test_rows_of_zeros_are_nodes_too():
    vectors, _ = groups(3)
    vectors[:40] = 0
    assert cluster(vectors).labels.shape == (600,)


def test_as_many_clusters_as_nodes():
    found = cluster(np.eye(6, dtype=np.float32), 6)
    assert sorted(found.labels.tolist()) == list(range(6))


@pytest.mark.parametrize("k", [0, -1, 601])
def test_impossible_numbers_of_clusters(k):
    with pytest.raises(UserError, match=f"{k} clusters were asked for, but 1 to 600 are possible"):
        cluster(groups(3)[0], k)


def test_vectors_that_are_none():
    broken = np.ones((4, 2), dtype=np.float32)
    broken[1, 1] = np.nan
    with pytest.raises(UserError, match="hold 1 value"):
        cluster(broken)
    with pytest.raises(UserError, match=r"their shape is \(0, 2\)"):
        cluster(broken[:0])


LABELS = np.array([0, 0, 0, 1, 1], dtype=np.int32)
TWO = Clustering(LABELS, 2, GIVEN)
DIRECTIONS = np.array([[1, 0], [1, 0.1], [1, 0.5], [0, 1], [0.1, 1]], dtype=np.float32)


def features_of(description, number):
    return [(row["name"], row["here"], row["elsewhere"]) for row in description["clusters"][number]["features"]]


def test_a_description_by_hand():
    #        everywhere, here only, more here, elsewhere only
    x = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1]], dtype=np.float32)
    names = ["everywhere", "here", "mostly", "there"]
    ids = np.array(list("abcde"), dtype=object)
    found = describe(TWO, csr_from_scipy(sp.csr_array(x)), names, ids, DIRECTIONS)
    assert features_of(found, 0) == [("here", 1.0, 0.0), ("mostly", 0.666667, 0.0)]
    assert features_of(found, 1) == [("there", 1.0, 0.0)]
    assert [part["size"] for part in found["clusters"]] == [3, 2]
    assert [part["cluster"] for part in found["clusters"]] == [0, 1]
    assert found["clusters"][0]["closest"] == ["b", "a", "c"]  # the mean points to (1, 0.18)
    assert (found["k"], found["criterion"], found["tried"]) == (2, "given", [])
    # Of dense features, lower ones set a cluster apart as well.
    dense = describe(TWO, torch.from_numpy(x), names, ids, DIRECTIONS)
    assert {name for name, *_ in features_of(dense, 0)} == {"here", "mostly", "there"}


def test_scores_are_the_standardized_difference():
    draw = np.random.default_rng(0)
    x, labels = draw.normal(size=(300, 40)), draw.integers(0, 3, 300).astype(np.int32)
    x[labels == 1] += np.linspace(0, 1, 40)
    listed = features_of(describe(Clustering(labels, 3, GIVEN), torch.from_numpy(x), None, np.arange(300), x), 1)
    here, others = x[labels == 1], x[labels != 1]
    more = np.vstack([here, others.mean(0)])  # nearly: one more node from elsewhere
    score = np.abs(more.mean(0) - others.mean(0)) / np.sqrt((more.var(0) + others.var(0)) / 2)
    assert [name for name, *_ in listed] == [f"feature {j}" for j in np.argsort(-score)[:10]]
    for name, inside, outside in listed:
        j = int(name.split()[1])
        assert (inside, outside) == pytest.approx((here[:, j].mean(), others[:, j].mean()), abs=1e-6)


def test_sparse_and_dense_features_have_the_same_means():
    draw = np.random.default_rng(1)
    x = (draw.random((200, 30)) < 0.2) * draw.random((200, 30))
    labels = draw.integers(0, 4, 200).astype(np.int32)
    x[labels == 2, 3] += 1
    parts = Clustering(labels, 4, GIVEN)
    dense = describe(parts, torch.from_numpy(x).float(), None, np.arange(200), x)
    sparse = describe(parts, csr_from_scipy(sp.csr_array(x)), None, np.arange(200), x)
    assert features_of(dense, 2)[0] == pytest.approx(features_of(sparse, 2)[0])
    assert features_of(sparse, 2)[0][0] == "feature 3"


def test_rare_words_do_not_outrank_common_ones():
    labels = np.repeat([0, 1], [2000, 1000]).astype(np.int32)
    x = np.zeros((3000, 202), dtype=np.float32)
    x[2000:2600, 0] = 1  # in 60 % of the cluster
    x[:100, 0] = 1  # and in 5 % elsewhere
    x[2000:2300, 1] = 1  # in 30 % of it, and nowhere else
    for word in range(2, 202):  # each in one node of the cluster
        x[2000 + word, word] = 1
    found = describe(Clustering(labels, 2, GIVEN), csr_from_scipy(sp.csr_array(x)), None, np.arange(3000), x[:, :2])
    assert [name for name, *_ in features_of(found, 1)][:2] == ["feature 0", "feature 1"]


def test_in_a_small_cluster_what_all_share_comes_first():
    x = np.zeros((103, 3), dtype=np.float32)
    x[100:, 0] = 1  # all three of the cluster, nobody else
    x[100, 1] = 1  # one of the three, nobody else
    x[::3, 2] = 1  # every third node
    labels = np.repeat([0, 1], [100, 3]).astype(np.int32)
    found = describe(Clustering(labels, 2, GIVEN), csr_from_scipy(sp.csr_array(x)), None, np.arange(103), x + 1)
    assert features_of(found, 1)[0][0] == "feature 0"


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e6])
def test_constant_features_set_nothing_apart(constant):
    x = torch.full((5, 3), constant)
    for features in (x, x.to_sparse_csr()):
        assert features_of(describe(TWO, features, None, np.arange(5), DIRECTIONS), 0) == []


def test_one_cluster_is_set_apart_from_nothing():
    found = describe(Clustering(np.zeros(5, dtype=np.int32), 1, GIVEN), torch.eye(5), None, np.arange(5), DIRECTIONS)
    assert found["clusters"][0]["features"] == []
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_wide_sparse_features_are_never_made_dense(monkeypatch):
    x = csr_from_scipy(sp.random_array((20_000, 10_000), density=1e-4, rng=np.random.default_rng(0)))
    labels = np.arange(20_000, dtype=np.int32) % 7
    monkeypatch.setattr(torch.Tensor, "to_dense", None)
    found = describe(Clustering(labels, 7, GIVEN), x, None, np.arange(20_000), np.ones((20_000, 2)))
    assert len(found["clusters"][6]["features"]) == 10


def test_names_of_other_features():
    with pytest.raises(UserError, match="There are 5 features but 2 names"):
        describe(TWO, torch.eye(5), ["a", "b"], np.arange(5), DIRECTIONS)


@pytest.mark.parametrize("features", [None, torch.rand(600, 4)])
def test_a_run_keeps_its_clusters(tmp_path, features):
    run = Run.create(tmp_path / "run")
    vectors, own = groups(4)
    run.save_embedding(np.array([f"n{i}" for i in range(600)], dtype=object), vectors)
    description = cluster_run(run, features=features, names=list("abcd"))
    kept = run.clusters()
    assert kept is not None
    labels, stored = kept
    assert stored == description
    assert stored["k"] == 4
    assert {row["k"] for row in stored["tried"]} >= {2, 3, 4, 5, 40}
    assert len(set(zip(labels.tolist(), own.tolist(), strict=True))) == 4
    assert all(name in {f"n{i}" for i in np.where(labels == 0)[0]} for name in stored["clusters"][0]["closest"])
