"""AFGRL in batches of rows: constant targets between refreshes, and an embedding that contains untrained vectors."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from afgrl.config import resolve
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.base import Size
from afgrl.methods.node_embedder import calibration_rows
from afgrl.methods.parts import positive_search
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positives import neighbor_mean
from afgrl.ops.collectives import Shards
from afgrl.ops.pair_loss import pair_matrix, positive_pair_loss
from afgrl.ops.pair_loss.cpu import pull_cpu
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.train.cuda_graph import eager_step
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from tests.conftest import communities
from tests.methods.short_runs import small_settings, start_run, train_run

WORDS = {"input": "features", "n_hops": 1}


def found_pairs(state, inputs):
    """The loss of a step that refreshes, and the pair matrix of the positives it found."""
    method, found = state.method.train(), []
    find = method.search.find
    method.search.find = lambda *arguments: found.append(find(*arguments)) or found[-1]
    loss = method.loss(inputs, state.rng)
    pairs = found[0]
    return loss, pair_matrix(pairs.src, pairs.dst, inputs.shards.n, pairs.is_positive)


def without_training(name, graph, **settings):
    cls = method_class(name)
    method = cls(small_settings(name, graph, **settings), Size(graph.n, graph.n_features), torch.Generator())
    inputs = method.prepare(graph)
    method.initialize(inputs)
    return method.embed(inputs)


def test_training_brings_nodes_of_the_same_group_closer():
    graph = communities(n_groups=3, size=40, n_features=100, n_isolated=0, signal=0.5)
    group = np.repeat(np.arange(3), 40)

    def purity(vectors):
        unit = F.normalize(vectors)
        nearest = (unit @ unit.T).fill_diagonal_(-2).topk(10).indices
        return (group[nearest] == group[:, None]).mean()

    given = WORDS | {"n_components": 32, "encoder_width": 32, "n_clusters": 6, "learning_rate": 0.01, "skip": "none"}
    untrained, trained = (purity(train_run("node_embedder", graph, steps=steps, **given)[1]) for steps in (0, 60))
    assert trained > untrained + 0.1


def test_a_step_on_all_rows_without_dropout_is_a_full_step(small_graph):
    given = {"steps": 6, "batch_size": 1000, "dropout": 0.0, "refresh_every": 1, "skip": "none"} | WORDS
    state, inputs = start_run("node_embedder", small_graph, **given)
    method, table = state.method, inputs.table.dense
    loss, matrix = found_pairs(state, inputs)
    with torch.no_grad():
        t, z = method._encode_all(method.target, inputs), method.predictor(method._encode_all(method.encoder, inputs))
    assert table.shape == (small_graph.n, 2 * small_graph.n_features)
    assert loss.item() == pytest.approx(positive_pair_loss(z, t, matrix).item(), rel=1e-5)


def test_neighbors_are_a_further_positive(small_graph):
    """With a large weight, the pull of a node is the mean target of its neighborhood."""
    given = {"steps": 3, "neighbor_weight": 1e6, "input": "own", "skip": "none"}
    state, inputs = start_run("node_embedder", small_graph, **given)
    state.method.train().loss(inputs, state.rng)
    t = state.method._encode_all(state.method.target, inputs)
    assert torch.allclose(state.method.pull.rows, 2 * neighbor_mean(t, inputs.adjacency), atol=1e-4)
    state, inputs = start_run("node_embedder", small_graph, **given | {"neighbor_weight": 0.0})
    _, matrix = found_pairs(state, inputs)
    expected = pull_cpu(t, matrix) * small_graph.n / matrix.values.sum()
    assert torch.allclose(state.method.pull.rows, expected, atol=1e-4)


def test_targets_are_those_of_the_target_network(small_graph):
    """Before the first step both networks are equal, so only an encoder that has moved tells them apart."""
    state, inputs = start_run("node_embedder", small_graph, steps=3, skip="none", neighbor_weight=0.0, **WORDS)
    method = state.method
    with torch.no_grad():
        for weight in method.encoder.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(7)))
    _, matrix = found_pairs(state, inputs)
    of_target, of_encoder = (method._encode_all(network, inputs) for network in (method.target, method.encoder))
    scale = small_graph.n / matrix.values.sum()
    assert torch.allclose(method.pull.rows, pull_cpu(of_target, matrix) * scale, atol=1e-4)
    assert not torch.allclose(method.pull.rows, pull_cpu(of_encoder, matrix) * scale, atol=1e-1)


@pytest.mark.parametrize("warm_start", [True, False])
def test_a_warm_start_continues_from_the_centers_of_the_last_refresh(small_graph, warm_start):
    state, inputs = start_run("node_embedder", small_graph, steps=3, warm_start=warm_start, skip="none", **WORDS)
    search = state.method.search
    rows = search.initial_rows(small_graph.n, state.rng)
    assert rows is not None
    found_pairs(state, inputs)
    assert (search.initial_rows(small_graph.n, state.rng) is None) == warm_start


def test_targets_and_positives_are_constant_between_refreshes(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=9, refresh_every=4)
    pulls = []
    training_loop(state, inputs, [lambda state, loss: pulls.append(state.method.pull.rows.clone())])
    changed = [not torch.equal(before, after) for before, after in itertools.pairwise(pulls)]
    assert changed == [False, False, False, True, False, False, False, True]


def test_a_step_reads_the_rows_of_its_batch_only(small_graph):
    state, inputs = start_run(
        "node_embedder", small_graph, steps=9, batch_size=5, refresh_every=9, skip="none", **WORDS
    )
    method = state.method.train()
    eager_step(method, state.optimizer, state.rng, inputs)
    method.age = 1
    table, read = inputs.table, []
    rows = type(table).rows

    def watched(self, index, *rest):
        read.append(index)
        return rows(self, index, *rest)

    object.__setattr__(table, "rows", watched.__get__(table))
    eager_step(method, state.optimizer, state.rng, inputs)
    assert [len(index) for index in read] == [5]


@pytest.mark.parametrize("sparse", [False, True])
def test_dense_and_sparse_rows_train_alike(sparse, rng):
    x = sp.random_array((60, 200), density=0.02, rng=2, dtype=np.float32)
    edges = torch.randint(60, (2, 150), generator=rng)
    graph = Graph(x if sparse else torch.from_numpy(x.toarray()), edges)
    given = WORDS | {"steps": 8, "dropout": 0.0, "batch_size": 16, "skip": "svd"}
    state, inputs = start_run("node_embedder", graph, **given)
    assert (inputs.table.sparse is not None) == sparse
    training_loop(state, inputs)
    other = Graph(torch.from_numpy(x.toarray()), edges)
    # Sums in another order differ by 1e-7; eight steps of Adam amplify that.
    expected = train_run("node_embedder", other, **given)[1]
    assert torch.allclose(state.method.embed(inputs) @ state.method.embed(inputs).T, expected @ expected.T, atol=1e-3)


@pytest.mark.parametrize(("skip", "names"), [("svd", ["svd"]), ("svd+ppr", ["svd", "ppr"])])
def test_the_embedding_contains_what_needs_no_training(small_graph, skip, names):
    """With room for all columns the projection is a rotation: cosines are the mean of those of the parts."""
    width = 64
    given = {"n_components": width, "encoder_width": width, "skip": skip, "steps": 4}
    state, inputs = start_run("node_embedder", small_graph, **given)
    training_loop(state, inputs)
    method = state.method
    h = F.normalize(method._encode_all(method.encoder, inputs).detach())
    parts = [F.normalize(without_training(name, small_graph, n_components=width)) for name in names]
    expected = (len(parts) * h @ h.T + sum(part @ part.T for part in parts)).numpy()
    vectors = method.embed(inputs)
    assert vectors.shape == (small_graph.n, width)
    # 70 nodes of 20 features span at most 70 directions; 64 columns keep nearly all of the length.
    assert np.allclose((vectors @ vectors.T).numpy(), expected, atol=0.05)
    assert np.corrcoef((vectors @ vectors.T).numpy().ravel(), expected.ravel())[0, 1] > 0.999


def test_without_skip_the_embedding_is_the_output_of_the_encoder(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=3, skip="none")
    training_loop(state, inputs)
    assert torch.equal(state.method.embed(inputs), state.method._encode_all(state.method.encoder, inputs))


def test_another_graph_is_embedded_with_the_projection_of_the_training_graph(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=3, skip="svd+ppr")
    training_loop(state, inputs)
    method = state.method
    first = method.embed(inputs)
    fitted = method.projection.clone()
    same_edges = Graph(torch.randn(small_graph.x.shape, generator=state.rng), small_graph.edge_index)
    for other in (communities(seed=5), same_edges):
        method.embed_graph(other)
        assert torch.equal(method.projection, fitted)
    assert torch.allclose(method.embed_graph(small_graph), first, atol=1e-5)


def test_a_graph_can_be_embedded_before_the_training_graph(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=2, skip="svd")
    training_loop(state, inputs)
    assert state.method.embed_graph(communities(seed=5)).any()


def test_the_vectors_of_old_nodes_hardly_move_when_a_node_is_added(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=3, skip="svd")
    training_loop(state, inputs)
    before = state.method.embed(inputs)
    x = torch.cat([small_graph.x, small_graph.x[:1]])
    edges = torch.cat([small_graph.edge_index, torch.tensor([[small_graph.n], [0]])], 1)
    after = state.method.embed_graph(Graph(x, edges))[:-1]
    cosine = F.cosine_similarity(before, after)
    assert cosine.median() > 0.999
    assert cosine.min() > 0.9  # the neighbors of the new node


def test_statistics_during_training_read_the_trained_vectors_of_some_nodes(small_graph):
    state, inputs = start_run("node_embedder", small_graph, steps=3, skip="svd")
    rows = torch.tensor([4, 0])
    expected = state.method._encode_all(state.method.encoder, inputs)[rows]
    assert torch.allclose(state.method.sample(inputs, rows), expected, atol=1e-6)


def test_the_mean_of_the_neighbors_equals_a_loop(rng):
    graph = communities()
    t = torch.randn(graph.n, 5, generator=rng)
    unit, expected = F.normalize(t), []
    for node in range(graph.n):
        neighbors = graph.edge_index[1][graph.edge_index[0] == node].tolist()
        expected.append(F.normalize(unit[[node, *neighbors]].mean(0), dim=0))
    assert torch.allclose(neighbor_mean(t, gcn_norm(graph)), torch.stack(expected), atol=1e-6)


def test_an_embedding_wider_than_all_its_parts_is_refused(small_graph):
    n_features = small_graph.n_features
    given = {"n_components": 8 * n_features, "encoder_width": 5, "skip": "svd", "steps": 3}
    with pytest.raises(UserError, match=f"have {4 * n_features + 5} columns together: set n_components to at most"):
        start_run("node_embedder", small_graph, **given)


def test_the_last_row_of_a_huge_graph_exists():
    """Float32 has no odd numbers above 2²⁴: 33,554,439 becomes 33,554,440."""
    assert calibration_rows(33_554_440, torch.device("cpu")).max() == 33_554_439


def test_large_graphs_compute_centers_from_some_rows(small_graph, monkeypatch):
    """Every node still gets the nearest center of each run."""
    monkeypatch.setattr(positive_search, "ROWS_PER_CENTER", 4)
    config = resolve(NodeEmbedderSettings, {"batch_size": 8, "n_clusters": 3, "n_components": 8}, graph=small_graph)
    n = small_graph.n
    assert len(range(n)[positive_search.kmeans_rows(n, config)]) < n / 2
    state, inputs = initial_state("node_embedder", config, small_graph, torch.device("cpu"))
    t = state.method._encode_all(state.method.target, inputs)
    with torch.no_grad():
        labels = state.method.search.cluster(t, state.method.search.initial_rows(n, state.rng), Shards(n))
    assert labels.shape == (config.n_restarts, n)
    distances = torch.cdist(F.normalize(t).expand(config.n_restarts, -1, -1), state.method.search.centers)
    assert torch.equal(labels, distances.argmin(2))
    assert positive_search.kmeans_rows(n, resolve(AFGRLSettings, graph=small_graph)) == slice(0, n, 1)
