"""The capabilities that each method declares are true; part of the contract in test_contract.py."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from afgrl.config import resolve
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.nn import Progress
from afgrl.train.cuda_graph import eager_step
from afgrl.train.loop import training_loop
from tests.methods.cases import cases_of, contract
from tests.methods.short_runs import N_CLASSES, N_SPLITS, small_labels


@contract
def test_trains_is_true_if_and_only_if_training_changes_the_vectors(case):
    state, inputs = case.start()
    before = state.method.embed(inputs).clone()
    learned = [parameter for parameter in state.method.parameters() if parameter.requires_grad]
    training_loop(state, inputs)
    assert torch.equal(before, state.method.embed(inputs)) != case.cls.trains
    assert bool(learned) == case.cls.trains
    if not case.cls.trains:
        assert state.step == 0
        with pytest.raises(UserError, match="'epochs'"):
            resolve(case.cls.settings_class, {"epochs": 1}, graph=case.graph)


@contract
def test_needs_labels_is_true_if_and_only_if_the_method_learns_from_labels(case):
    given = case.cls.label_settings(N_CLASSES, N_SPLITS)
    state, inputs = case.start()
    if not case.cls.needs_labels:
        assert given == {}
        assert state.method.predict(inputs) is None
        with pytest.raises(AssertionError, match="does not learn from labels"):
            state.method.attach_labels(*small_labels(case.graph.n))
        return
    assert given.keys() <= case.cls.settings_class.model_fields.keys()
    y, *roles = small_labels(case.graph.n)
    vectors = [case.train(labels=(labels, *roles))[1] for labels in (y, y.roll(5))]
    assert not torch.equal(*vectors)
    training_loop(state, inputs)
    predicted = state.method.predict(inputs)
    assert predicted.shape == (N_SPLITS, case.graph.n)
    assert ((predicted >= 0) & (predicted < N_CLASSES)).all()


@contract
def test_inductive_is_true_if_and_only_if_another_graph_can_be_embedded(case):
    state, _ = case.train()
    new = case.graph.x.to_dense()[:17].flip(0)
    other = Graph(new, torch.tensor([[0, 3, 5], [1, 4, 6]]))
    if case.cls.inductive:
        vectors = state.method.embed_graph(other)
        assert vectors.shape == (other.n, state.method.embed_graph(case.graph).shape[1])
        assert torch.isfinite(vectors).all()
    else:
        with pytest.raises(UserError, match="cannot embed another graph"):
            state.method.embed_graph(other)


@contract
def test_reads_names_what_vectors_follow_from(case):
    graph, x = case.graph, case.graph.x.to_dense()
    other_features = dataclasses.replace(graph, x=x.flip(1))
    no_edges = dataclasses.replace(graph, edge_index=graph.edge_index[:, :0], edge_weight=None)
    state, vectors = case.train()
    reads = case.cls.reads(state.method.settings)
    for name, other in (("features", other_features), ("edges", no_edges)):
        if case.cls.inductive:
            changed = not torch.equal(vectors, state.method.embed_graph(other))
        elif name == "features":
            changed = not torch.equal(vectors, case.train(other)[1])
        else:
            continue  # walks need edges
        assert changed <= (name in reads), name
        if case == cases_of(case.method)[1]:  # others may have no hops
            assert changed == (name in reads), name


def tensors(value, path=""):
    """All tensors that an object holds outside its parameters, by their path."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, nn.Module):
        parts = {**value.__dict__, **value._buffers, **value._modules}
        yield from (pair for key, part in parts.items() for pair in tensors(part, f"{path}.{key}"))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (
            pair
            for part in dataclasses.fields(value)
            for pair in tensors(getattr(value, part.name), f"{path}.{part.name}")
        )
    elif isinstance(value, (list, tuple)):
        yield from (pair for key, part in enumerate(value) for pair in tensors(part, f"{path}.{key}"))


def host_state(method):
    """The Python numbers of a method, which a replayed CUDA graph does not change."""
    return {name: value for name, value in vars(method).items() if isinstance(value, (bool, int, float, str))}


@contract
def test_capturable_is_true_only_if_a_step_can_be_replayed(case):
    """A replay repeats the work of a step in the same memory, without its Python code."""
    (state, inputs), epochs = case.start(), 6
    if not case.cls.trains:
        assert not case.cls.capturable
        assert state.method.capture_key() is None
        return
    method = state.method.train()
    keys, memory = [], None
    for step in range(epochs):
        key = method.capture_key()
        before = host_state(method)
        eager_step(method, state.optimizer, state.rng, inputs)
        if key is not None and key in keys:
            assert host_state(method) == before
            assert {path: value.data_ptr() for path, value in tensors(method)} == memory
        memory = memory or {path: value.data_ptr() for path, value in tensors(method)}
        keys.append(key)
        method.after_step(Progress(step + 1, epochs))
    if not case.cls.capturable:
        assert set(keys) == {None}
    elif case == cases_of(case.method)[0]:
        assert any(keys.count(key) > 1 for key in keys if key is not None)
