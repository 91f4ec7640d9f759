import pytest
import torch

from afgrl.graph import Graph
from afgrl.methods.parts import positives as positives_module
from afgrl.methods.parts.positives import (
    CLUSTER_RULES,
    Clustering,
    candidate_pairs,
    edge_keys,
    filter_pairs,
    same_cluster_pairs,
)
from afgrl.ops.pair_filter import GLOBAL, LOCAL

# Six vectors at increasing angles: the nearest neighbors of a node have the next lower and higher number.
ANGLES = torch.tensor([0.0, 0.1, 0.22, 1.0, 1.1, 1.22])
VECTORS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
EDGES = edge_keys(Graph(VECTORS, torch.tensor([[0, 2], [1, 3]])))  # 0 – 1 and 2 – 3
CLUSTERS = torch.tensor([[0, 1, 1, 2, 2, 3], [0, 1, 2, 3, 3, 3]])


def find(h, t, edges, clusters, rule="all", n_neighbors=4, include_self=True):
    """The positives, with the same calls as in AFGRL."""
    if rule == "clusters":
        return same_cluster_pairs(clusters, include_self)
    return filter_pairs(*candidate_pairs(h, t, n_neighbors, include_self), len(h), edges, clusters, rule)


def positives(rule, **options):
    clusters = CLUSTERS if rule in CLUSTER_RULES else None
    pairs = find(VECTORS, VECTORS, EDGES, clusters, rule=rule, **options).compact()
    found = list(zip(pairs.src.tolist(), pairs.dst.tolist(), pairs.kind.tolist(), strict=True))
    assert [pair[0] for pair in found] == sorted(pair[0] for pair in found)
    return {(src, dst): kind for src, dst, kind in found}


def test_the_rule_knn_accepts_every_nearest_neighbor():
    assert set(positives("knn", n_neighbors=1, include_self=False)) == {
        (0, 1), (1, 0), (2, 1), (3, 4), (4, 3), (5, 4),
    }  # fmt: skip


def test_local_positives_are_adjacent():
    assert positives("knn+adj", n_neighbors=1, include_self=False) == {(0, 1): LOCAL, (1, 0): LOCAL}


def test_global_positives_share_a_cluster_in_any_run():
    assert positives("knn+clusters", n_neighbors=1, include_self=False) == dict.fromkeys(
        [(2, 1), (3, 4), (4, 3), (5, 4)], GLOBAL
    )


def test_the_rule_all_is_the_union_of_local_and_global_positives():
    both = positives("all", n_neighbors=1, include_self=False)
    assert both == positives("knn+adj", n_neighbors=1, include_self=False) | positives(
        "knn+clusters", n_neighbors=1, include_self=False
    )


def test_with_include_self_a_node_is_its_own_first_candidate_and_always_positive():
    pairs = positives("all", n_neighbors=2, include_self=True)
    assert {pair for pair in pairs if pair[0] == pair[1]} == {(i, i) for i in range(6)}
    assert all(pairs[i, i] == LOCAL | GLOBAL for i in range(6))
    assert {pair for pair in pairs if pair[0] != pair[1]} == set(positives("all", n_neighbors=1, include_self=False))


def test_the_rule_clusters_accepts_all_pairs_of_a_cluster():
    together = {(i, j) for run in CLUSTERS.tolist() for i in range(6) for j in range(6) if run[i] == run[j]}
    assert set(positives("clusters")) == together
    assert set(positives("clusters", include_self=False)) == {(i, j) for i, j in together if i != j}


def test_candidates_compare_online_with_target_vectors():
    h, t = VECTORS, VECTORS.flip(0)
    pairs = find(h, t, EDGES, None, rule="knn", n_neighbors=1, include_self=False)
    assert pairs.dst[0].item() == 5  # the target vector of node 5 is the online vector of node 0


def test_positives_equal_brute_force_on_a_random_graph(small_graph, rng):
    n = small_graph.n
    h, t = torch.randn(2, n, 5, generator=rng)
    clusters = torch.randint(4, (3, n), generator=rng)
    found = find(h, t, edge_keys(small_graph), clusters, n_neighbors=7, include_self=False)
    assert len(found.src) == 7 * n  # independent of the number of positives
    pairs = found.compact()
    cosine = torch.cosine_similarity(h[:, None].double(), t[None].double(), dim=-1).fill_diagonal_(-2)
    nearest = torch.zeros(n, n, dtype=torch.bool).scatter_(1, cosine.topk(7).indices, True)
    adjacent = torch.zeros(n, n, dtype=torch.bool)
    adjacent[tuple(small_graph.edge_index)] = True
    same_cluster = (clusters[:, :, None] == clusters[:, None]).any(0)
    expected = nearest & (adjacent | same_cluster)
    order = torch.argsort(pairs.src * n + pairs.dst)  # the positives of a node are sorted by distance
    src, dst, kind = pairs.src[order], pairs.dst[order], pairs.kind[order]
    assert torch.equal(torch.stack([src, dst], dim=1), expected.nonzero())
    assert torch.equal((kind & LOCAL) > 0, adjacent[expected])
    assert torch.equal((kind & GLOBAL) > 0, same_cluster[expected])


@pytest.mark.parametrize("include_self", [True, False])
def test_a_graph_of_one_node_has_at_most_itself_as_a_positive(include_self):
    one = torch.ones(1, 2)
    pairs = find(
        one, one, torch.empty(0, dtype=torch.int64), None,
        rule="knn+adj", n_neighbors=4, include_self=include_self,
    )  # fmt: skip
    assert pairs.is_positive.sum() == int(include_self)


def test_a_search_in_clusters_finds_candidates_of_the_nearest_clusters(rng):
    h = torch.randn(30, 4, generator=rng)
    one = Clustering(torch.zeros(30, dtype=torch.int64), h.mean(0, keepdim=True))
    exact, in_clusters = (candidate_pairs(h, h, 3, include_self=True, clustering=each) for each in (None, one))
    assert all(torch.equal(*both) for both in zip(exact, in_clusters, strict=True))  # one cluster has all nodes


def test_small_blocks_give_the_same_pairs(monkeypatch):
    whole = same_cluster_pairs(CLUSTERS, include_self=False)
    monkeypatch.setattr(positives_module, "BLOCK_BYTES", 2 * CLUSTERS.numel())  # two rows per block
    blocks = same_cluster_pairs(CLUSTERS, include_self=False)
    assert torch.equal(blocks.src, whole.src)
    assert torch.equal(blocks.dst, whole.dst)
