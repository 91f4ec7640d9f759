"""What every method must do, present and future: each test runs over all of them."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from afgrl.config import resolve
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import methods
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.steps import plain_step
from afgrl.train import start, train
from tests.conftest import communities, weighted

CPU = torch.device("cpu")
# Small and quick, for those settings that a method has.
QUICK = {
    "epochs": 6,
    "n_components": 8,
    "predictor_width": 8,
    "n_clusters": 4,
    "n_restarts": 2,
    "kmeans_iters": 3,
    "refresh_every": 2,
    "hidden_width": 8,
    "projection_width": 8,
    "walk_length": 6,
    "window": 2,
    "batch_size": 32,
    "patience": 0,
    "keep": 5,
    "n_classes": 3,
    "n_splits": 2,
}
DRAWN_BY_NOTHING = ("hops", "raw")  # they have no seed to follow
every_method = pytest.mark.parametrize("name", list(methods()))
trained_methods = pytest.mark.parametrize("name", [name for name, method in methods().items() if method.trains])


WEIGHTLESS = ("raw",)


@every_method
def test_weights_of_edges_count_and_their_unit_does_not(name, small_graph):
    graph = weighted(small_graph)
    doubled = replace(graph, edge_weight=2 * graph.edge_weight)
    vectors, plain, same = (trained(name, each)[1].to_dense() for each in (graph, small_graph, doubled))
    assert torch.isfinite(vectors).all()
    assert torch.equal(vectors, plain) == (name in WEIGHTLESS)
    assert torch.equal(vectors, same)


def begun(name, graph, **settings):
    return begun_on(CPU, name, graph, **settings)


def begun_on(device, name, graph, **settings):
    """A state before its first epoch, with quick settings, and its inputs."""
    config = methods()[name].Config
    quick = {key: value for key, value in (QUICK | settings).items() if key in config.model_fields}
    if not methods()[name].trains:
        del quick["epochs"]
    state, inputs = start(name, resolve(config, quick).adapted(graph), graph, device)
    if isinstance(state.method, SupervisedGCNMethod):
        y, part = 3 * torch.arange(graph.n) // graph.n, torch.arange(graph.n) % 3
        state.method.learn_from(y, torch.stack([part == 0, part <= 1]), torch.stack([part == 1, part == 2]))
    return state, inputs


def trained(name, graph, **settings):
    state, inputs = begun(name, graph, **settings)
    train(state, inputs)
    return state, state.method.represent(inputs)


@every_method
@pytest.mark.parametrize("sparse", [False, True])
def test_a_finite_vector_for_every_node(name, sparse):
    graph = communities(n_isolated=3)
    if sparse:
        graph = Graph(graph.x.to_sparse_csr(), graph.edge_index)
    _, vectors = trained(name, graph)
    assert vectors.shape[0] == graph.n
    assert vectors.dtype == torch.float32
    assert torch.isfinite(vectors).all()


@every_method
@pytest.mark.parametrize(
    "graph",
    [
        Graph(torch.ones(1, 3), torch.empty(2, 0)),
        Graph(torch.eye(2), torch.tensor([[0], [1]])),
        Graph(torch.eye(5), torch.empty(2, 0)),
        Graph(torch.zeros(5, 2), torch.tensor([[0], [1]])),
        Graph(torch.ones(9, 2), torch.tensor([[0, 3], [1, 4]])),
    ],
    ids=["one node", "two nodes", "no edges", "all zero", "all alike"],
)
def test_the_smallest_graphs_are_legal(name, graph):
    _, vectors = trained(name, graph)
    assert torch.isfinite(vectors).all()


@every_method
def test_same_seed_same_bits_and_another_seed_others(name, small_graph):
    first, second, other = (trained(name, small_graph, seed=seed)[1] for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert torch.equal(first, other) == (name in DRAWN_BY_NOTHING)


@trained_methods
def test_resuming_equals_never_stopping(name, small_graph):
    _, expected = trained(name, small_graph)
    for stop in (1, 3, 5):
        kept = io.BytesIO()

        def keep(state, loss, stop=stop, kept=kept):
            if state.step == stop:
                torch.save(state.to_checkpoint(), kept)

        state, inputs = begun(name, small_graph)
        train(state, inputs, [keep])
        resumed, inputs = begun(name, small_graph)
        kept.seek(0)
        resumed.restore(torch.load(kept, weights_only=True))
        train(resumed, inputs)
        assert torch.equal(resumed.method.represent(inputs), expected), stop


@trained_methods
def test_looking_does_not_change_training(name, small_graph):
    _, expected = trained(name, small_graph)
    state, inputs = begun(name, small_graph)
    train(state, inputs, [lambda state, loss: state.method.represent(inputs)])
    assert torch.equal(state.method.represent(inputs), expected)


@trained_methods
def test_training_changes_the_vectors_and_leaves_the_global_seed_alone(name, small_graph):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    state, inputs = begun(name, small_graph)
    before = state.method.represent(inputs).clone()
    train(state, inputs)
    assert not torch.equal(before, state.method.represent(inputs))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", [name for name, method in methods().items() if method.is_inductive])
def test_renumbering_nodes_renumbers_untrained_vectors(name, small_graph, rng):
    """Training draws random rows, so only what precedes it can be equal."""
    order = torch.randperm(small_graph.n, generator=rng)
    place = torch.argsort(order)
    shuffled = Graph(small_graph.x[order], place[small_graph.edge_index])
    first, second = (begun(name, graph, epochs=0)[0].method.embed(graph) for graph in (small_graph, shuffled))
    assert torch.allclose(first[order], second, atol=1e-5)  # sums in another order


@every_method
def test_an_embedding_of_the_graph_is_that_of_its_inputs(name, small_graph):
    state, vectors = trained(name, small_graph)
    assert torch.equal(state.method.embed(small_graph), vectors)


@every_method
def test_a_new_graph_is_embedded_or_refused_in_one_sentence(name, small_graph):
    state, _ = trained(name, small_graph)
    new = communities(size=11, seed=5)
    if methods()[name].is_inductive:
        vectors = state.method.embed(new)
        assert vectors.shape[0] == new.n
        assert torch.isfinite(vectors).all()
    else:
        with pytest.raises(UserError, match="cannot embed another"):
            state.method.embed(new)


@trained_methods
def test_what_a_recording_repeats_is_kept_in_place(name, small_graph):
    """A recorded step finds every buffer where it was: the loss moves none of them."""
    state, inputs = begun(name, small_graph)
    if state.method.recordable() is None:
        pytest.skip("is never recorded")
    state.method.train()
    plain_step(state.method, state.optimizer, state.rng, inputs)
    places = {key: value.data_ptr() for key, value in state.method.named_buffers()}
    plain_step(state.method, state.optimizer, state.rng, inputs)
    assert places == {key: value.data_ptr() for key, value in state.method.named_buffers()}


@trained_methods
def test_the_loss_falls(name):
    graph = communities(n_groups=3, size=30, n_features=30, n_isolated=0)
    state, inputs = begun(name, graph, epochs=60, n_components=16, learning_rate=0.01, warmup=0.0, dropout=0.0)
    losses = []
    train(state, inputs, [lambda state, loss: losses.append(loss.item())])
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


@every_method
def test_every_setting_says_what_it_is(name):
    for setting, field in methods()[name].Config.model_fields.items():
        assert field.description, setting


def test_training_groups_what_belongs_together():
    """Three linked groups with noisy features: training must make a node's nearest more often of its group."""
    graph = communities(n_groups=3, size=40, n_features=100, n_isolated=0, signal=0.5)
    group = np.repeat(np.arange(3), 40)

    def purity(vectors):
        unit = torch.nn.functional.normalize(vectors)
        nearest = (unit @ unit.T).fill_diagonal_(-2).topk(10).indices
        return (group[nearest] == group[:, None]).mean()

    state, inputs = begun("afgrl", graph, epochs=0, n_hops=0, n_components=32)
    untrained = purity(state.method.represent(inputs))
    _, vectors = trained("afgrl", graph, epochs=60, n_components=32, n_clusters=6, n_hops=0, learning_rate=0.01)
    assert purity(vectors) > untrained + 0.1
