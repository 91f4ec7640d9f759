"""The contract of every method, also of methods that do not exist yet: each test runs for all of them.

A new method is tested without a change here. Every method has at least two cases (cases.py).
"""

import io
import json
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from afgrl.config import resolve
from afgrl.data import load
from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits
from afgrl.experiment.training import train_run
from afgrl.graph import Graph
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from afgrl.train.loop import training_loop
from tests.conftest import communities, weighted
from tests.methods import test_capabilities  # noqa: F401  # its tests are a part of the contract
from tests.methods.cases import CONTRACT, cases_of, contract
from tests.methods.short_runs import CPU, small_labels, small_settings

IGNORE_EDGES = {"raw"}  # methods whose vectors do not depend on the edges


def check_method(name):
    """Run the whole contract for one method, for example one that a test has just added."""
    for case in cases_of(name):
        for test in CONTRACT:
            try:
                test(case)
            except pytest.skip.Exception:
                continue


def modes(method):
    return [module.training for module in method.modules()]


@contract
def test_every_node_has_a_finite_vector(case):
    _, vectors = case.train()
    assert vectors.ndim == 2
    assert vectors.shape[0] == case.graph.n
    assert vectors.dtype == torch.float32
    assert vectors.layout == torch.strided
    assert torch.isfinite(vectors).all()
    assert not vectors.requires_grad


SMALLEST = {
    "one node": Graph(torch.ones(1, 3), torch.empty(2, 0)),
    "two nodes": Graph(torch.eye(2), torch.tensor([[0], [1]])),
    "no edges": Graph(torch.eye(5), torch.empty(2, 0)),
    "all features zero": Graph(torch.zeros(5, 2), torch.tensor([[0], [1]])),
    "all features equal": Graph(torch.ones(9, 2), torch.tensor([[0, 3], [1, 4]])),
}


@contract
def test_the_smallest_graphs_are_valid(case):
    for name, graph in SMALLEST.items():
        fewer = {"n_neighbors": 1} if graph.n == 1 else {}  # a value above the number of nodes is refused
        _, vectors = case.train(graph, epochs=3, **fewer)
        assert vectors.shape[0] == graph.n, name
        assert torch.isfinite(vectors).all(), name


RING = [(i, (i + 1) % 9) for i in range(9)]
WITHOUT_INFORMATION = {
    "a constant column": (["7"] * 9, RING),
    "numbers that are 0 in float32": ([f"{i}e-200" for i in range(9)], RING),
    "one node": (["7"], [(0, 0)]),
}


@contract
def test_a_run_of_tables_without_information_is_complete(case):
    """Their features are sparse and have no entries."""
    for name, (cells, edges) in WITHOUT_INFORMATION.items():
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder)
            (source / "nodes.csv").write_text("id,size\n" + "".join(f"n{i},{cell}\n" for i, cell in enumerate(cells)))
            (source / "edges.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in edges))
            dataset = labeled(load(source))
            run = trained(case, dataset, source / "run")
            assert dataset.graph.density == run.dataset().graph.density == 0
            assert np.isfinite(run.embedding()[1]).all(), name
            assert all(torch.isfinite(value).all() for value in run.model()[0].values()), name


def trained(case, dataset, folder):
    """A run as `afgrl fit` leaves it."""
    fewer = {"n_neighbors": 1} if dataset.graph.n == 1 else {}  # a value above the number of nodes is refused
    settings = small_settings(case.method, dataset.graph, **case.settings | {"epochs": 2} | fewer)
    run, spec = Run.create(folder), RunSpec(str(folder.parent), case.method, settings=settings.model_dump())
    with run.replacing():
        run.save_spec(spec)
        run.save_dataset(dataset)
        train_run(run, spec, dataset, settings, CPU)
    return Run.open(folder)


def labeled(dataset):
    y, train, validation = small_labels(dataset.graph.n)
    roles = np.where(train, TRAIN, np.where(validation, VALIDATION, TEST)).astype(np.uint8)
    return replace(dataset, y=y.numpy(), splits=Splits("thirds", roles))


@contract
def test_the_same_seed_gives_the_same_bits_and_another_seed_other_bits(case):
    (state, first), (_, second), (_, other) = (case.train(seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, second)
    uses_seed = any(True for _ in state.method.parameters())
    assert torch.equal(first, other) != uses_seed


@contract
def test_resuming_from_a_checkpoint_equals_never_stopping(case):
    if not case.cls.trains:
        pytest.skip("does not train")
    files = {stop: io.BytesIO() for stop in (1, 3, 5)}

    def save(state, loss):
        if state.step in files:
            torch.save(state.to_checkpoint(), files[state.step])

    whole, inputs = case.start()
    training_loop(whole, inputs, [save])
    for stop, file in files.items():
        resumed, inputs = case.start()
        overwrite(resumed)
        file.seek(0)
        resumed.restore(torch.load(file, weights_only=True))
        assert resumed.step == stop
        training_loop(resumed, inputs)
        assert torch.equal(resumed.method.embed(inputs), whole.method.embed(inputs)), stop
        assert torch.equal(resumed.rng.get_state(), whole.rng.get_state()), stop


def overwrite(state):
    """Change all state that a checkpoint has to restore."""
    for value in state.method.state_dict().values():
        if isinstance(value, Tensor):
            value.fill_(7)
    state.rng.manual_seed(99)
    state.lowest.fill_(-1.0)


@contract
def test_embedding_during_training_does_not_change_training(case):
    if not case.cls.trains:
        pytest.skip("does not train")
    losses, losses_with_embedding, seen = [], [], []
    (state, inputs), (embedded, _) = case.start(), case.start()
    training_loop(state, inputs, [lambda _, loss: losses.append(loss.item())])

    def embed(state, loss):
        losses_with_embedding.append(loss.item())
        before = modes(state.method)
        state.method.embed(inputs)
        state.method.embed_graph(case.graph)
        seen.append((before, modes(state.method)))

    training_loop(embedded, inputs, [embed])
    assert all(before == after for before, after in seen)
    assert all(before[0] for before, _ in seen)  # the method itself is in train mode
    assert losses_with_embedding == losses
    assert torch.equal(embedded.method.embed(inputs), state.method.embed(inputs))


@contract
def test_embed_runs_in_eval_mode_without_gradients_and_restores_the_mode(case):
    state, inputs = case.start()
    method, seen = state.method, []
    encode = type(method).encode

    def watched(inputs):
        seen.append((any(modes(method)), torch.is_grad_enabled()))
        return encode(method, inputs)

    object.__setattr__(method, "encode", watched)
    for training in (True, False):
        before = modes(method.train(training))
        assert before[0] is training
        method.embed(inputs)
        assert modes(method) == before
    assert seen == [(False, False)] * 2


@contract
def test_training_and_embedding_leave_the_global_generator_alone(case):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    case.train()
    assert torch.equal(torch.rand(3), expected)


def renumbered(graph, order):
    """The same graph with node ``order[i]`` as node i."""
    place = torch.argsort(order)
    x = graph.x.to_dense()[order]
    return replace(
        graph, x=x.to_sparse_csr() if graph.x.layout == torch.sparse_csr else x, edge_index=place[graph.edge_index]
    )


# Settings with which training draws no random numbers, or none that have an effect. Batch normalization is excluded:
# the gradient of a bias in front of it is rounding error, which Adam scales up to whole steps.
NOT_RANDOM = {"drop_edges_1": 0.0, "drop_edges_2": 0.0, "drop_features_1": 0.0, "drop_features_2": 0.0}
NOT_RANDOM |= {"dropout": 0.0, "positives": "knn+adj", "normalization": "frozen", "batch_size": 1000}


@contract
def test_renumbering_the_nodes_renumbers_the_vectors(case):
    if not case.cls.inductive:
        pytest.skip("learns one vector per node, which starts at random")
    graph = case.graph
    order = torch.randperm(graph.n, generator=torch.Generator().manual_seed(5))
    other, labels = renumbered(graph, order), small_labels(graph.n)
    other_labels = tuple(part[..., order] for part in labels)
    for epochs in (0, 6):
        settings = NOT_RANDOM | {"epochs": epochs}
        first, repeated = (case.start(labels=labels, **settings) for _ in range(2))
        repeated[0].rng.manual_seed(99)
        second = case.start(other, labels=other_labels, **settings)
        vectors = []
        for state, inputs in (first, repeated, second):
            training_loop(state, inputs)
            vectors.append(state.method.embed(inputs))
        if torch.equal(vectors[0], vectors[1]):  # training drew nothing that has an effect
            # Sums in another order differ by 1e-7 of their size; Adam's division amplifies that for small gradients.
            assert torch.allclose(vectors[0][order], vectors[2], rtol=1e-3, atol=1e-4), epochs
        else:
            assert epochs > 0
            assert case.method not in {"afgrl", "bgrl", "gca", "grace", "supervised_gcn"}


@contract
def test_edge_weights_matter_but_not_their_unit(case):
    if case.graph.directed:
        pytest.skip("covered by the undirected cases")
    graph = weighted(case.graph)
    doubled = replace(graph, edge_weight=2 * graph.edge_weight)
    vectors, unweighted, same = (case.train(each)[1] for each in (graph, case.graph, doubled))
    assert torch.equal(vectors, unweighted) == (case.method in IGNORE_EDGES)
    assert torch.equal(vectors, same)


@contract
def test_embed_graph_equals_embed_of_the_inputs(case):
    state, vectors = case.train()
    assert torch.equal(state.method.embed_graph(case.graph), vectors)


@contract
def test_settings_survive_json_and_toml(case):
    settings = small_settings(case.method, case.graph, **case.settings)
    assert resolve(case.cls.settings_class, json.loads(settings.model_dump_json())) == settings
    text = RunSpec("demo", case.method, settings=settings.model_dump()).to_toml()
    spec = RunSpec.from_toml(tomllib.loads(text))
    assert resolve(case.cls.settings_class, spec.settings) == settings


@contract
def test_every_setting_has_a_description(case):
    for setting, info in case.cls.settings_class.model_fields.items():
        assert info.description, setting


@contract
def test_the_loss_decreases(case):
    if not case.cls.trains:
        pytest.skip("does not train")
    graph = communities(n_groups=3, size=20, n_features=30, n_isolated=0)
    easy = {"learning_rate": 0.01, "warmup": 0.0, "dropout": 0.0}
    state, inputs = case.start(graph, epochs=40, n_components=16, **easy)
    losses = []
    training_loop(state, inputs, [lambda state, loss: losses.append(loss.item())])
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
