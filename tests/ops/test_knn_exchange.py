"""The search in clusters of several processes, against brute force, and how it divides the work."""

import pytest
import torch
from torch.nn import functional as F

from afgrl.ops.collectives import Shards, sent_bytes
from afgrl.ops.knn import exchange
from afgrl.ops.knn.clusters import nearest_in_clusters
from afgrl.ops.knn.rounds import Rounds
from afgrl.ops.sparse.stable import stable_product
from tests.train.processes import run_processes

D = 8


def case(n, n_clusters, k, diagonal, probes, *, largest=0.0, equal=False, max_rows=10**6):
    """Vectors, clusters of which the last has no keys and the first the share ``largest``, and settings."""
    rng = torch.Generator().manual_seed(n)
    key = torch.randn(n, D, generator=rng)
    key = key[torch.arange(n) % 3] if equal else key
    query = key if equal else key + 0.3 * torch.randn(n, D, generator=rng)
    labels = torch.randint(max(1, n_clusters - 1), (n,), generator=rng)
    labels[torch.rand(n, generator=rng) < largest] = 0
    return query, key, k, labels, torch.randn(n_clusters, D, generator=rng), diagonal, probes, max_rows


CASES = {
    "usual": case(143, 12, 6, "drop", 4),
    "fewer clusters than processes": case(60, 2, 4, "first", 1),
    "fewer nodes than processes": case(3, 2, 2, "drop", 1),
    "clusters with too few keys": case(41, 30, 8, "first", 2),
    "all search everywhere": case(20, 15, 19, "drop", 2),
    "equal vectors": case(90, 9, 5, "keep", 3, equal=True),
    "one large cluster, several rounds": case(120, 7, 5, "drop", 2, largest=0.6, max_rows=60),
}


def brute_force(query, key, k, labels, centers, diagonal, probes, _):
    query, key = F.normalize(query), F.normalize(key)
    near = stable_product(query, F.normalize(centers)).scatter_(1, labels[:, None], torch.inf)
    near = near.topk(min(probes, len(centers)), 1).indices
    searched = (labels == near[:, :, None]).any(1)
    searched |= searched.sum(1, keepdim=True) < k + (diagonal == "drop")
    cosine = stable_product(query, key).masked_fill(~searched, -torch.inf)
    if diagonal != "keep":
        cosine.fill_diagonal_(torch.inf if diagonal == "first" else -torch.inf)
    found = cosine.sort(dim=1, descending=True, stable=True)  # of equal ones the lower number is first
    similarity = found.values[:, :k].clone()
    if diagonal == "first":
        similarity[:, 0] = (query * key).sum(1)
    return found.indices[:, :k], similarity


def searched_by_brute_force(_, __, cases):
    return [brute_force(*given) for given in cases]


def searched(rank, n_processes, cases):
    found = []
    for query, key, k, labels, centers, diagonal, probes, max_rows in cases:
        exchange.RING_BYTES = max_rows * 4 * D  # in this process only
        shards = Shards(len(query), rank, n_processes, distributed=True)
        own = slice(shards.begin, shards.end)
        one = nearest_in_clusters(
            query[own], key[own], k, labels, centers, diagonal=diagonal, probes=probes, shards=shards
        )
        found.append((one.index, one.similarity))
    return found


@pytest.mark.parametrize("n_processes", [1, 2, 4])
def test_the_search_is_brute_force_in_the_clusters_bit_for_bit(n_processes):
    parts = run_processes(n_processes, searched, list(CASES.values()))
    (brute,) = run_processes(1, searched_by_brute_force, list(CASES.values()))
    for name, (expected, cosine), found in zip(CASES, brute, zip(*parts, strict=True), strict=True):
        index, similarity = (torch.cat(part) for part in zip(*found, strict=True))
        assert torch.equal(index, expected), name
        assert torch.equal(similarity, cosine), name


@pytest.mark.parametrize("max_rows", [100, 10**6])
@pytest.mark.parametrize("n_processes", [1, 3, 8])
def test_units_compare_every_pair_of_a_cluster_once_within_rows_and_work(n_processes, max_rows):
    keys = torch.arange(400) % 5
    keys[:240] = 2  # most of the work
    queries = torch.cat([keys, torch.arange(300) % 4])  # clusters that queries search; 4 has no others
    n_keys, n_queries = torch.bincount(keys, minlength=6), torch.bincount(queries, minlength=6)
    rounds = Rounds.of(n_keys, n_queries, max_rows, n_processes)
    unit_of_key, key = rounds.of_keys(keys, torch.arange(400))
    unit_of_query, query = rounds.of_queries(queries, torch.arange(700))
    met = torch.zeros(400, 700)
    at_key, at_query = (unit_of_key[:, None] == unit_of_query).nonzero().unbind(1)
    met.index_put_((key[at_key].long(), query[at_query].long()), torch.ones(len(at_key)), accumulate=True)
    assert torch.equal(met, (keys[:, None] == queries).float())

    assert sorted(unit for one in rounds.units for units in one for unit in range(*units)) == list(
        range(rounds.n_units)
    )
    rows = torch.bincount(unit_of_key, minlength=rounds.n_units) + torch.bincount(
        unit_of_query, minlength=rounds.n_units
    )
    # Parts of rows that are no multiple of their number differ by one row or a few.
    assert max(int(rows[slice(*units)].sum()) for one in rounds.units for units in one) <= 1.2 * max_rows
    # A process has its share of the work, and at most one unit more.
    work = n_keys * n_queries
    share = (work / rounds.parts.square()).repeat_interleave(rounds.parts.square()) / work.sum() * n_processes
    assert max(sum(float(share[slice(*one[rank])].sum()) for one in rounds.units) for rank in range(n_processes)) < 2


def bytes_of(rank, n_processes, query, key, labels, centers):
    shards = Shards(len(query), rank, n_processes, distributed=True)
    own = slice(shards.begin, shards.end)
    sent_bytes.clear()
    nearest_in_clusters(query[own], key[own], 5, labels, centers, diagonal="drop", probes=3, shards=shards)
    return dict(sent_bytes)


def test_only_rows_of_clusters_of_other_processes_are_sent():
    """Two clusters in two processes: the keys of a process are all of its own cluster, or all of the other one."""
    rng = torch.Generator().manual_seed(0)
    key = torch.randn(80, D, generator=rng)
    centers = F.normalize(torch.randn(2, D, generator=rng))
    for labels, keys_sent in ((torch.arange(80) // 40, 0), (1 - torch.arange(80) // 40, 40)):
        sent = run_processes(2, bytes_of, key, key, labels, centers)
        # Seven swaps with a size each; keys, their nodes and units; queries, their nodes, visits and five answers.
        queries = 40 * (4 * D + 8 + 8 + 8 * 5)
        assert [one["swap"] for one in sent] == [7 * 8 + keys_sent * (4 * D + 8 + 4) + queries] * 2
        assert all("ring" not in one for one in sent)
