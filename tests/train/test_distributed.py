"""The default embedding with 1, 2 and 4 processes, against each other and against the version without processes."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.nn import functional as F

from afgrl.csr import csr_tensor
from afgrl.errors import UserError
from afgrl.methods import check_processes
from afgrl.ops.collectives import Shards, sent_bytes
from afgrl.ops.collectives.exchange import Exchange
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn import nearest_neighbors, partition, visitors
from afgrl.ops.knn.clusters import nearest_in_clusters
from afgrl.ops.knn.partition import fine_partition
from afgrl.ops.knn.visitors import Clustering
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.rows import row_range
from afgrl.train.distributed import Processes
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from tests.conftest import communities, weighted
from tests.methods.cases import dense_graph, sparse_graph
from tests.methods.short_runs import small_settings
from tests.train.processes import CPU, DEVICE, run_alone, run_processes

SIZES = (1, 2, 4)
SMALL = {"steps": 4, "refresh_every": 2}
# Graph and settings. With 62, 41 and 3 nodes, four processes have unequal numbers of rows; of 3, one has none.
CASES = {
    "dense": (dense_graph, SMALL | {"skip": "svd+ppr", "batch_size": 20}),
    "own features, neighbors as positives": (dense_graph, SMALL | {"skip": "svd", "input": "own", "batch_size": 7}),
    "all rows, SX": (dense_graph, SMALL | {"skip": "svd", "input": "features", "n_hops": 0, "batch_size": 1000}),
    "weights, search in clusters, no self": (
        lambda: weighted(dense_graph()),
        SMALL | {"skip": "none", "input": "own", "search": "clusters", "include_self": False, "loss_over": "nodes"},
    ),
    "sparse": (sparse_graph, SMALL | {"skip": "svd", "input": "features", "n_hops": 2, "batch_size": 9}),
    "sparse own": (sparse_graph, SMALL | {"skip": "none", "input": "own", "positives": "knn", "dropout": 0.5}),
    "fewer nodes than processes": (
        lambda: communities(1, 3, n_isolated=0),
        SMALL | {"skip": "svd", "n_neighbors": 2, "n_clusters": 2},
    ),
}


def shards_of(n, rank, n_processes):
    """Of one process that torchrun did not start if ``n_processes`` is 0."""
    return Processes(rank, n_processes, CPU).shards(n) if n_processes else Shards(n)


def trained(rank, n_processes, graph, settings):
    """Losses, vectors and statistics of the last pairs."""
    shards = shards_of(graph.n, rank, n_processes)
    resolved = small_settings("node_embedder", graph, **settings)
    state, inputs = initial_state("node_embedder", resolved, graph, DEVICE, shards)
    losses = []
    training_loop(state, inputs, [lambda _, loss: losses.append(float(loss))])
    return losses, state.method.embed(inputs), state.method.diagnostics()


@cache
def results(name, n_processes):
    make_graph, settings = CASES[name]
    return run_processes(n_processes, trained, make_graph(), settings)


@pytest.mark.parametrize("name", CASES)
def test_the_loss_does_not_depend_on_the_number_of_processes(name):
    alone = results(name, 1)[0]
    for n_processes in SIZES[1:]:
        several = results(name, n_processes)
        assert len({tuple(losses) for losses, _, _ in several}) == 1
        # Gradients are added in another order, and eigenvectors amplify that.
        assert several[0][0] == pytest.approx(alone[0], abs=1e-5)
        assert several[0][2] == alone[2]  # pairs
        vectors = torch.cat([vectors for _, vectors, _ in several])
        assert vectors.shape == alone[1].shape
        assert torch.allclose(vectors, alone[1], atol=1e-3)


@pytest.mark.parametrize("name", [name for name, (_, settings) in CASES.items() if settings["skip"] == "none"])
def test_the_loss_is_that_of_training_without_processes(name):
    """Without principal directions, whose basis is computed in another precision."""
    make_graph, settings = CASES[name]
    expected = run_alone(trained, make_graph(), settings)
    assert results(name, 2)[0][0] == pytest.approx(expected[0], abs=1e-5)
    assert results(name, 2)[0][2] == expected[2]


def test_the_same_number_of_processes_gives_the_same_bits():
    name = "dense"
    again = run_processes(2, trained, CASES[name][0](), CASES[name][1])
    for one, other in zip(results(name, 2), again, strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])


def neighbors(rank, n_processes, query, key, k, diagonal, labels):
    shards = shards_of(len(query), rank, n_processes)
    own = slice(shards.begin, shards.end)
    if labels is None:
        found = nearest_neighbors(query[own], key[own], k, diagonal=diagonal, shards=shards)
    else:
        centers = F.normalize(key[:5])
        found = nearest_in_clusters(query[own], key[own], k, labels, centers, diagonal=diagonal, shards=shards)
    return found.index, found.similarity


def neighbors_in(n_processes, *arguments):
    """The neighbors of all nodes and their similarities, by several processes."""
    parts = run_processes(n_processes, neighbors, *arguments)
    return [torch.cat(part) for part in zip(*parts, strict=True)]


@pytest.mark.parametrize("diagonal", ["first", "drop", "keep"])
def test_neighbors_are_the_exact_ones_with_any_number_of_processes(diagonal, rng):
    query, key = torch.randn(2, 143, 24, generator=rng)
    expected = nearest_neighbors(query, key, 6, diagonal=diagonal)
    for n_processes in SIZES:
        found, similarity = neighbors_in(n_processes, query, key, 6, diagonal, None)
        assert torch.equal(found, expected.index)
        assert torch.allclose(similarity, expected.similarity, atol=1e-6)  # sums in another order


def test_of_equal_neighbors_the_lowest_number_wins(rng):
    """Most vectors are equal, as those of nodes without features are."""
    key = torch.randn(4, 24, generator=rng)[torch.randint(4, (143,), generator=rng)]
    for labels in (None, torch.arange(143) % 5):
        alone, *others = (neighbors_in(n, key, key, 6, "drop", labels)[0] for n in SIZES)
        assert all(torch.equal(alone, other) for other in others)
        if labels is None:
            same = (key[:, None] == key).all(2) & ~torch.eye(143, dtype=torch.bool)
            assert alone.tolist() == [row.nonzero().flatten()[:6].tolist() for row in same]


SMALL_CLUSTERS = 15, 2  # rows, and rows per center: every seventh row, so that processes begin between two of them


def found_in_fine_clusters(rank, n_processes, query, key, coarse):
    partition.CPU_ROWS, partition.FINE_ROWS = SMALL_CLUSTERS  # in this process only
    visitors.NEAR_CENTERS = 12  # of about 20
    shards = shards_of(len(query), rank, n_processes)
    own = slice(shards.begin, shards.end)
    labels, centers, probes = clusters = fine_partition(key[own], coarse, shards)
    found = nearest_in_clusters(query[own], key[own], 4, labels, centers, diagonal="drop", probes=probes, shards=shards)
    return clusters, found.index


def test_a_search_in_fine_clusters_is_that_of_one_process_with_any_number_of_processes(rng):
    key = torch.randn(12, 16, generator=rng).repeat(25, 1) + 0.5 * torch.randn(300, 16, generator=rng)
    query = key + 0.1 * torch.randn(300, 16, generator=rng)
    coarse = Clustering(torch.arange(300) % 4, torch.randn(5, 16, generator=rng))  # the last one has no rows
    # One process without torch.distributed finds the same clusters, and searches in them.
    expected_clusters, expected = run_alone(found_in_fine_clusters, query, key, coarse)
    results = [run_processes(n_processes, found_in_fine_clusters, query, key, coarse) for n_processes in SIZES]
    for parts in results:
        for clusters, _ in parts:
            assert torch.equal(clusters.labels, expected_clusters.labels)
            assert torch.equal(clusters.centers, expected_clusters.centers)
        assert torch.equal(torch.cat([found for _, found in parts]), expected)


def clustered(rank, n_processes, x, centers):
    shards = shards_of(len(x), rank, n_processes)
    own = x[shards.begin : shards.end]
    found = run_kmeans(own, centers.shape[1], unit=True, n_iters=10, centers=centers, shards=shards)
    return found.centers, found.labels


def test_clusters_have_the_same_bits_with_any_number_of_processes(rng):
    x = F.normalize(torch.randn(143, 24, generator=rng))
    centers = x[torch.randint(143, (2, 5), generator=rng)]
    (expected, labels), *_ = run_processes(1, clustered, x, centers)
    for n_processes in SIZES[1:]:
        parts = run_processes(n_processes, clustered, x, centers)
        assert all(torch.equal(found, expected) for found, _ in parts)
        assert torch.equal(torch.cat([own for _, own in parts], dim=1), labels)
    means = torch.stack([torch.stack([x[own == number].mean(0) for number in range(5)]) for own in labels])
    assert torch.allclose(expected, means, atol=1e-2)  # ten iterations are nearly enough


def exchanged(rank, n_processes, table, needed):
    shards = shards_of(len(table), rank, n_processes)
    sent_bytes.clear()
    plan = Exchange.of(needed[rank], shards)
    own = table[shards.begin : shards.end]
    whole = table.to_sparse_csr()
    csr = csr_tensor(whole.crow_indices(), whole.col_indices(), whole.values(), tuple(table.shape))
    sparse = plan.csr_rows(row_range(csr, shards.begin, shards.end)).to_dense()
    sample = shards.part_of(slice(0, shards.n, 3))
    blocks = list(shards.blocks(own, 4))
    return plan.rows(own), sparse, shards.gather(own), shards.sum(own[sample].sum(0)), blocks


@pytest.mark.parametrize("n_processes", SIZES)
@pytest.mark.parametrize("n", [3, 18])
def test_rows_reach_the_processes_that_need_them(n, n_processes, rng):
    table = torch.randint(-2, 3, (n, 5), generator=rng).float()
    needed = [torch.randint(n, (7,), generator=rng).unique() for _ in range(n_processes)]
    found = run_processes(n_processes, exchanged, table, needed)
    for rank, (rows, sparse, gathered, total, blocks) in enumerate(found):
        assert torch.equal(rows, table[needed[rank]])
        assert torch.equal(sparse, table[needed[rank]])
        assert torch.equal(gathered, table)
        assert torch.equal(total, table[::3].sum(0))
        assert torch.equal(torch.cat(blocks), table) if rank == 0 else blocks == []


def layouts(x, shards):
    """The same rows as a dense and a sparse table, and as one that stays sparse on a GPU."""
    own = row_range(x, shards.begin, shards.end)
    sparse = RowTable.of(own, shards)
    return RowTable.of(own.to_dense(), shards), sparse, replace(sparse, sparse=None, csr=own)


def batch_and_sample(rank, n_processes, x, size, rows):
    """Rows of a batch with dropout, and some rows of all."""
    shards, one = shards_of(x.shape[0], rank, n_processes), torch.eye(x.shape[1], device=DEVICE)
    found = []
    for table in layouts(x, shards):
        batch = table.batch(size, 0.5, torch.Generator(DEVICE).manual_seed(3))
        dense = batch.x @ one if batch.x.shape[0] else torch.zeros(0, x.shape[1])
        nodes = torch.arange(shards.n_own, device=DEVICE)[batch.rows] + shards.begin
        found.append((nodes, dense, batch.n_rows, table.sample(rows) @ one))
    return found


@pytest.mark.parametrize("size", [7, 100])
def test_all_processes_draw_the_same_batch_and_dropout(size, rng):
    whole = (torch.randn(18, 6, generator=rng) * (torch.rand(18, 6, generator=rng) < 0.4)).to_sparse_csr()
    x = csr_tensor(whole.crow_indices(), whole.col_indices(), whole.values(), (18, 6))
    rows = torch.tensor([17, 2, 2, 9])
    expected = run_alone(batch_and_sample, x, size, rows)
    for n_processes in SIZES:
        parts = run_processes(n_processes, batch_and_sample, x, size, rows)
        for (nodes, dense, n_rows, _), found in zip(expected, zip(*parts, strict=True), strict=True):
            in_order = nodes.argsort(stable=True)  # processes have ranges of nodes
            order = torch.cat([part[0] for part in found]).argsort(stable=True)
            assert torch.equal(torch.cat([part[1] for part in found])[order], dense[in_order])
            assert {part[2] for part in found} == {n_rows}
            assert all(torch.equal(part[3], whole.to_dense()[rows]) for part in found)


def traffic(rank, n_processes, n_numbers):
    shards = shards_of(n_numbers, rank, n_processes)
    sent_bytes.clear()
    shards.sum(torch.ones(n_numbers, device=DEVICE))
    list(shards.ring(torch.ones(n_numbers, device=DEVICE)))
    shards.gather(torch.ones(shards.n_own, device=DEVICE))
    return dict(sent_bytes)


def test_bytes_are_those_of_the_formulas():
    """Of docs/scale.md: a sum sends each number twice, less the own part; a ring passes on all blocks but one."""
    for n_processes in (2, 4):
        others = n_processes - 1
        expected = {"sum": 2 * others * 4 * 1000 / n_processes, "ring": others * 4 * 1000}
        expected["gather"] = others * 4 * 1000 / n_processes
        assert run_processes(n_processes, traffic, 1000) == [expected] * n_processes


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("bgrl", {}, "The method 'bgrl' runs in one process; several processes train node_embedder."),
        ("node_embedder", {"steps": 3, "positives": "clusters"}, "cannot train with positives='clusters'"),
        ("node_embedder", {"steps": 3, "normalization": "batch"}, "cannot train with normalization='batch'"),
        ("node_embedder", {"steps": 3, "patience": 2}, "cannot train with patience=2; set it to 0, or use one process"),
    ],
)
def test_what_several_processes_cannot_train_is_refused(name, given, sentence, small_graph):
    with pytest.raises(UserError, match=sentence):
        check_processes(name, small_settings(name, small_graph, **given))
