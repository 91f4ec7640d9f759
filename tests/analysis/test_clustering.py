import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from afgrl.analysis import clustering
from afgrl.analysis.cluster_number import best_modularities, fewest_clusters, modularity
from afgrl.analysis.clustering import BY_MODULARITY, BY_USER, PLAIN, READOUT, cluster_run, cluster_vectors
from afgrl.data.dataset import Dataset
from afgrl.errors import UserError
from afgrl.evaluate import clustering_readout, smoothed_directions
from afgrl.graph import Graph
from afgrl.ops import kmeans
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec


def grouped_vectors(n_groups, n=600, width=32, noise=0.3, seed=0):
    """Vectors around ``n_groups`` random directions, and their groups; the last is twice as large as the first."""
    draw = np.random.default_rng(seed)
    shares = np.linspace(1, 2, n_groups)
    group = np.sort(draw.choice(n_groups, n, p=shares / shares.sum()))
    vectors = draw.normal(size=(n_groups, width))[group] + noise * draw.normal(size=(n, width))
    return (vectors * draw.uniform(0.1, 10, (n, 1))).astype(np.float32), group


def is_one_to_one(labels, groups):
    pairs = set(zip(labels.tolist(), groups.tolist(), strict=True))
    return len(pairs) == len(set(labels.tolist())) == len(set(groups.tolist()))


# The clusters


@pytest.mark.parametrize("n_groups", [2, 3, 7, 11, 15])
def test_the_number_of_clear_groups_is_found(n_groups):
    vectors, group = grouped_vectors(n_groups, n=1500)
    result = cluster_vectors(vectors)
    assert result.k == n_groups
    assert is_one_to_one(result.labels, group)
    assert result.criterion == BY_MODULARITY
    assert dict(result.tried)[n_groups] > 0.4


def test_few_of_many_clear_groups_are_merged():
    assert 24 <= cluster_vectors(grouped_vectors(26, n=4000, noise=0.2)[0]).k <= 28


def test_clusters_are_numbered_by_decreasing_size():
    vectors, group = grouped_vectors(5)
    result = cluster_vectors(vectors, 5)
    assert result.labels.dtype == np.int32
    assert np.bincount(result.labels).tolist() == sorted(np.bincount(group).tolist(), reverse=True)
    assert (result.k, result.criterion, result.tried) == (5, BY_USER, ())


def test_the_same_seed_gives_the_same_clusters():
    vectors, _ = grouped_vectors(6, noise=1.5)
    first, second = cluster_vectors(vectors, seed=3), cluster_vectors(vectors, seed=3)
    assert np.array_equal(first.labels, second.labels)
    assert first.tried == second.tried
    assert cluster_vectors(vectors, seed=4).tried != first.tried


def test_only_directions_matter():
    vectors, _ = grouped_vectors(4)
    longer = vectors * np.linspace(1, 50, len(vectors), dtype=np.float32)[:, None]
    assert np.array_equal(cluster_vectors(vectors, 4).labels, cluster_vectors(longer, 4).labels)


def test_more_rows_than_the_samples(monkeypatch):
    monkeypatch.setattr(kmeans, "SAMPLE_SIZE", 100)
    monkeypatch.setattr(clustering, "SAMPLE_SIZE", 150)
    vectors, group = grouped_vectors(4, n=1000)
    result = cluster_vectors(vectors)
    assert result.k == 4
    assert is_one_to_one(result.labels, group)


@pytest.mark.parametrize("k", [None, 1])
def test_one_node_is_one_cluster(k):
    result = cluster_vectors(np.ones((1, 3), dtype=np.float32), k)
    assert (result.k, result.labels.tolist()) == (1, [0])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_very_few_nodes(n):
    result = cluster_vectors(np.eye(n, dtype=np.float32))
    assert result.k <= n
    assert sorted(set(result.labels.tolist())) == list(range(result.k))


@pytest.mark.parametrize("k", [None, 7])
def test_equal_vectors_are_one_cluster(k):
    result = cluster_vectors(np.ones((50, 3), dtype=np.float32), k)
    assert (result.k, set(result.labels.tolist())) == (1, {0})


def test_there_are_no_more_clusters_than_distinct_vectors():
    result = cluster_vectors(np.repeat(np.eye(3, dtype=np.float32), 20, axis=0), 10)
    assert result.k == 3
    assert np.bincount(result.labels).tolist() == [20, 20, 20]


def test_zero_vectors_are_accepted():
    vectors, _ = grouped_vectors(3)
    vectors[:40] = 0
    assert cluster_vectors(vectors).labels.shape == (600,)


def test_one_cluster_per_node_is_possible():
    result = cluster_vectors(np.eye(6, dtype=np.float32), 6)
    assert sorted(result.labels.tolist()) == list(range(6))


@pytest.mark.parametrize("k", [0, -1, 601])
def test_an_impossible_number_of_clusters_is_rejected(k):
    with pytest.raises(UserError, match=f"number of clusters must be between 1 and 600, not {k}"):
        cluster_vectors(grouped_vectors(3)[0], k)


def test_the_possible_number_of_clusters_does_not_depend_on_samples(monkeypatch):
    monkeypatch.setattr(kmeans, "SAMPLE_SIZE", 100)
    with pytest.raises(UserError, match="between 1 and 600, not 0"):
        cluster_vectors(grouped_vectors(3)[0], 0)


def test_invalid_vectors_are_rejected():
    invalid = np.ones((4, 2), dtype=np.float32)
    invalid[1, 1] = np.nan
    with pytest.raises(UserError, match=r"contain 1 value\(s\) that are NaN or infinite"):
        cluster_vectors(invalid)
    with pytest.raises(UserError, match=r"their shape is \(0, 2\)"):
        cluster_vectors(invalid[:0])
    with pytest.raises(UserError, match=r"contain 1 value\(s\)"):
        cluster_vectors(invalid, graph=Graph(torch.ones(4, 1), torch.empty(2, 0)))


def linked_groups(n=400, noise=1.2):
    """A graph whose edges are mostly within 4 groups, noisy vectors of its nodes, and the groups."""
    vectors, group = grouped_vectors(4, n, noise=noise)
    draw = np.random.default_rng(0)
    linked = draw.random((n, n)) < np.where(group[:, None] == group, 0.1, 0.002)
    return Graph(np.ones((n, 1), dtype=np.float32), np.stack(np.triu(linked, 1).nonzero())), vectors, group


@pytest.mark.parametrize("k", [None, 4])
def test_with_a_graph_the_readout_is_clustered_and_chooses_the_number(k):
    graph, vectors, _ = linked_groups()
    adjacency = gcn_norm(graph)
    found = cluster_vectors(vectors, k, seed=2, graph=graph)
    directions = smoothed_directions(torch.from_numpy(vectors), graph.x, adjacency)
    assert found.tried == (cluster_vectors(directions[:, :64].numpy(), seed=2).tried if k is None else ())
    if k is not None:
        expected = cluster_vectors(clustering_readout(directions, adjacency, k, seed=2).numpy(), k, seed=2)
        assert np.array_equal(found.labels, expected.labels)
    assert not np.array_equal(found.labels, cluster_vectors(vectors, k, seed=2).labels)


# The number of clusters


def test_modularity_equals_networkx():
    draw = torch.Generator().manual_seed(0)
    neighbors = torch.stack([torch.randperm(39, generator=draw)[:4] for _ in range(40)])
    neighbors = (torch.arange(40).unsqueeze(1) + 1 + neighbors) % 40  # never the row itself
    labels = torch.randint(5, (40,), generator=draw)
    graph = nx.MultiGraph([(i, int(j)) for i in range(40) for j in neighbors[i]])
    parts = [set(torch.where(labels == part)[0].tolist()) for part in range(5)]
    assert modularity(labels, neighbors) == pytest.approx(nx.community.modularity(graph, parts), abs=1e-12)


def test_the_modularity_is_that_of_networkx_on_the_neighbor_graph_of_scikit_learn():
    group = np.repeat(np.arange(5), 4)
    vectors = np.random.default_rng(0).normal(size=(5, 8))[group] + 0.05 * np.random.default_rng(1).normal(size=(20, 8))
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    tried = best_modularities(torch.from_numpy(unit), torch.Generator().manual_seed(0))
    neighbors = NearestNeighbors(n_neighbors=5).fit(unit).kneighbors(return_distance=False)  # three in the own group
    graph = nx.MultiGraph([(i, int(j)) for i in range(20) for j in neighbors[i]])
    expected = nx.community.modularity(graph, [set(np.flatnonzero(group == part).tolist()) for part in range(5)])
    assert tried[5] == pytest.approx(expected, abs=1e-12)


def test_the_fewest_clusters_of_nearly_the_best_modularity():
    assert fewest_clusters({2: 0.4, 3: 0.69, 4: 0.7, 8: 0.71, 12: 0.6}) == 4  # 0.30 is within 4 % of 0.29, 0.31 is not
    assert fewest_clusters({1: 0.0, 2: -0.1}) == 1


# A run


def test_the_clusters_of_a_run_are_saved_in_it(tmp_path):
    vectors, group = grouped_vectors(4)
    ids = np.array([f"n{i}" for i in range(600)], dtype=object)
    features = np.eye(4, 5, dtype=np.float32)[group] + 0.01  # column j is high in group j, the last one is constant
    run = Run.create(tmp_path / "run")
    run.save_spec(RunSpec("", "afgrl"))
    run.save_dataset(Dataset("graph", Graph(features, np.empty((2, 0), dtype=np.int64), ids=ids)))
    run.save_embedding(ids, vectors)
    description = cluster_run(run)
    labels, stored = run.clusters()
    assert stored == description
    assert (stored["k"], stored["criterion"]) == (4, BY_MODULARITY)
    assert {row["k"] for row in stored["tried"]} >= {2, 3, 4, 5, 40}
    assert is_one_to_one(labels, group)
    for cluster in stored["clusters"]:
        members = np.flatnonzero(labels == cluster["cluster"])
        assert cluster["size"] == len(members)
        assert set(cluster["closest"]) <= set(ids[members])
        assert cluster["features"][0]["name"] == f"feature {group[members[0]]}"
    assert (cluster_run(run, 3)["k"], run.clusters()[1]["criterion"]) == (3, BY_USER)


def test_a_run_is_clustered_by_its_readout_unless_plain(tmp_path):
    graph, vectors, group = linked_groups()
    run = Run.create(tmp_path / "run")
    run.save_spec(RunSpec("", "afgrl"))
    run.save_dataset(Dataset("graph", graph))
    run.save_embedding(graph.ids, vectors)
    stored = cluster_run(run)
    assert (stored["k"], stored["clustered"]) == (4, READOUT)
    assert is_one_to_one(run.clusters()[0], group)
    for cluster in stored["clusters"]:  # the central nodes are those of the vectors, not of the readout
        members = run.clusters()[0] == cluster["cluster"]
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert cluster["closest"][0] == np.where(members, unit @ unit[members].sum(0), -np.inf).argmax()
    assert cluster_run(run, plain=True)["clustered"] == PLAIN
    assert np.array_equal(run.clusters()[0], cluster_vectors(vectors).labels)
