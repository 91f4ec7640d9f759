import pytest
import torch

from afgrl.graph import Graph
from afgrl.positives import ADJACENT, SAME_CLUSTER, cluster_mates, confirm, edge_keys, nearest

# Six nodes on a line of angles: the nearest of each are its neighbors in number.
ANGLES = torch.tensor([0.0, 0.1, 0.22, 1.0, 1.1, 1.22])
VECTORS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
EDGES = edge_keys(Graph(VECTORS, torch.tensor([[0, 2], [1, 3]])))  # 0 – 1 and 2 – 3
CLUSTERS = torch.tensor([[0, 1, 1, 2, 2, 3], [0, 1, 2, 3, 3, 3]])


def find(h, t, edges, clusters, rule="all", n_neighbors=4, include_self=True):
    """As AFGRL does it."""
    if rule == "clusters":
        return cluster_mates(clusters, include_self)
    return confirm(*nearest(h, t, n_neighbors, include_self), len(h), edges, clusters, rule)


def positives(rule, **options):
    clusters = CLUSTERS if rule in ("knn+clusters", "clusters", "all") else None
    pairs = find(VECTORS, VECTORS, EDGES, clusters, rule=rule, **options).compact()
    found = list(zip(pairs.src.tolist(), pairs.dst.tolist(), pairs.why.tolist(), strict=True))
    assert [pair[0] for pair in found] == sorted(pair[0] for pair in found)
    return {(src, dst): why for src, dst, why in found}


def test_the_nearest_alone():
    assert set(positives("knn", n_neighbors=1, include_self=False)) == {
        (0, 1), (1, 0), (2, 1), (3, 4), (4, 3), (5, 4),
    }  # fmt: skip


def test_the_graph_confirms():
    assert positives("knn+adj", n_neighbors=1, include_self=False) == {(0, 1): ADJACENT, (1, 0): ADJACENT}


def test_a_cluster_of_any_run_confirms():
    assert positives("knn+clusters", n_neighbors=1, include_self=False) == dict.fromkeys(
        [(2, 1), (3, 4), (4, 3), (5, 4)], SAME_CLUSTER
    )


def test_real_positives_are_the_union_with_their_reasons():
    both = positives("all", n_neighbors=1, include_self=False)
    assert both == positives("knn+adj", n_neighbors=1, include_self=False) | positives(
        "knn+clusters", n_neighbors=1, include_self=False
    )


def test_the_node_itself_is_counted_first_and_always_positive():
    pairs = positives("all", n_neighbors=2, include_self=True)
    assert {pair for pair in pairs if pair[0] == pair[1]} == {(i, i) for i in range(6)}
    assert all(pairs[i, i] == ADJACENT | SAME_CLUSTER for i in range(6))
    assert {pair for pair in pairs if pair[0] != pair[1]} == set(positives("all", n_neighbors=1, include_self=False))


def test_clusters_alone_need_no_neighborhood():
    together = {(i, j) for run in CLUSTERS.tolist() for i in range(6) for j in range(6) if run[i] == run[j]}
    assert set(positives("clusters")) == together
    assert set(positives("clusters", include_self=False)) == {(i, j) for i, j in together if i != j}


def test_neighbors_are_of_online_against_target():
    h, t = VECTORS, VECTORS.flip(0)
    pairs = find(h, t, EDGES, None, rule="knn", n_neighbors=1, include_self=False)
    assert pairs.dst[0].item() == 5  # the target vector of node 5 is the online vector of node 0


def test_brute_force_on_a_random_graph(small_graph, rng):
    n = small_graph.n
    h, t = torch.randn(2, n, 5, generator=rng)
    clusters = torch.randint(4, (3, n), generator=rng)
    found = find(h, t, edge_keys(small_graph), clusters, n_neighbors=7, include_self=False)
    assert len(found.src) == 7 * n  # whatever is a positive: the sizes do not depend on it
    pairs = found.compact()
    cosine = torch.cosine_similarity(h[:, None].double(), t[None].double(), dim=-1).fill_diagonal_(-2)
    nearest = torch.zeros(n, n, dtype=torch.bool).scatter_(1, cosine.topk(7).indices, True)
    adjacent = torch.zeros(n, n, dtype=torch.bool)
    adjacent[tuple(small_graph.edge_index)] = True
    mates = (clusters[:, :, None] == clusters[:, None]).any(0)
    expected = nearest & (adjacent | mates)
    order = torch.argsort(pairs.src * n + pairs.dst)  # a node's positives come nearest first
    src, dst, why = pairs.src[order], pairs.dst[order], pairs.why[order]
    assert torch.equal(torch.stack([src, dst], dim=1), expected.nonzero())
    assert torch.equal((why & ADJACENT) > 0, adjacent[expected])
    assert torch.equal((why & SAME_CLUSTER) > 0, mates[expected])


@pytest.mark.parametrize("include_self", [True, False])
def test_one_node_and_more_neighbors_than_nodes(include_self):
    one = torch.ones(1, 2)
    pairs = find(
        one, one, torch.empty(0, dtype=torch.int64), None,
        rule="knn+adj", n_neighbors=4, include_self=include_self,
    )  # fmt: skip
    assert pairs.kept.sum() == int(include_self)
