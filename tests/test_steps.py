"""Recorded steps, which only a GPU can make; what a recording needs of a method is tested everywhere."""

import copy

import pytest
import torch

from afgrl.config import resolve
from afgrl.methods import afgrl, methods
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.nn import Progress
from afgrl.ops.aside import Aside
from afgrl.steps import plain_step
from afgrl.train import start, train
from tests.conftest import communities, weighted
from tests.test_methods import begun_on

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
graphs = pytest.mark.parametrize("graph", [communities, lambda: weighted(communities())], ids=["plain", "weighted"])


def begun(**settings):
    graph = communities(size=60)
    small = {"n_components": 48, "predictor_width": 64, "n_clusters": 7, "epochs": 14, **settings}
    return start("afgrl", resolve(AFGRLConfig, small).adapted(graph), graph, DEVICE)


def by_plain_steps(state, inputs):
    epochs = state.method.config.epochs
    state.method.train()
    for step in range(epochs):
        state.optimizer.set_learning_rate(state.method.learning_rate(Progress(step, epochs)))
        plain_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, epochs))


@needs_gpu
@pytest.mark.parametrize(
    "settings",
    [
        {"refresh_every": 1, "warm_start": False},
        {"refresh_every": 3},
        {"positives": "knn+adj"},
        {"search": "clusters"},
        {"precision": "float32"},
    ],
)
def test_a_recorded_training_has_the_bits_of_one_that_was_not(settings):
    recorded, plain = begun(**settings), begun(**settings)
    train(*recorded)
    by_plain_steps(*plain)
    for ours, theirs in zip(recorded[0].method.parameters(), plain[0].method.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@needs_gpu
@pytest.mark.parametrize("name", [name for name, method in methods().items() if method.trains])
@graphs
def test_every_method_trains_on_a_gpu_the_same_recorded_or_not(name, graph):
    recorded, plain = (begun_on(DEVICE, name, graph(), epochs=8) for _ in range(2))
    train(*recorded)
    by_plain_steps(*plain)
    for ours, theirs in zip(recorded[0].method.parameters(), plain[0].method.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(*(state.method.represent(inputs) for state, inputs in (recorded, plain)))


@needs_gpu
@pytest.mark.parametrize("name", list(methods()))
@graphs
def test_every_method_embeds_on_a_gpu_as_on_a_cpu(name, graph):
    """Before the first step, where nothing has been drawn on the device yet."""
    vectors = []
    for device in (DEVICE, torch.device("cpu")):
        state, inputs = begun_on(device, name, graph(), epochs=0, precision="float32")
        vectors.append(state.method.represent(inputs).cpu())
    assert torch.allclose(*vectors, atol=1e-4)  # products of tf32 units may serve where torch was told so


@needs_gpu
def test_resuming_on_a_gpu_equals_never_stopping():
    whole, half = begun(refresh_every=3), begun(refresh_every=3)
    saved = []
    train(
        *half,
        callbacks=[lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint())) if state.step == 7 else None],
    )
    train(*whole)
    again = begun(refresh_every=3)
    again[0].restore(saved[0])
    train(*again)
    assert torch.equal(again[0].method.represent(again[1]), whole[0].method.represent(whole[1]))


def test_the_fast_path_and_the_references_train_alike(monkeypatch):
    losses = {}
    for choice in ("auto", "reference"):
        monkeypatch.setenv("AFGRL_OPS", choice)
        history = []
        train(*begun(), callbacks=[lambda state, loss, history=history: history.append(loss.item())])
        losses[choice] = history
    # On a GPU bf16 decides a few positives otherwise and tf32 rounds; on a CPU sums have another order.
    assert losses["auto"] == pytest.approx(losses["reference"], rel=0.05)


def test_kinds_of_steps():
    state, inputs = begun(refresh_every=2)
    kinds = []
    for step in range(4):
        kinds.append(state.method.recordable())
        plain_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, 4))
    assert kinds == ["first search", "reuse", "search", "reuse"]
    for settings in ({"n_layers": 2}, {"positives": "clusters"}, {"kmeans_backend": "faiss"}):
        assert begun(**settings)[0].method.recordable() is None


def test_a_search_in_clusters_is_not_recorded_but_the_steps_between_searches_are():
    state, inputs = begun(refresh_every=2, search="clusters")
    assert state.method.recordable() is None
    plain_step(state.method, state.optimizer, state.rng, inputs)
    state.method.after_step(Progress(1, 2))
    assert state.method.recordable() == "reuse"


@pytest.mark.parametrize(("search", "backend"), [("exact", "torch"), ("clusters", "torch"), ("clusters", "faiss")])
def test_clusters_are_read_only_once_they_are_there(monkeypatch, search, backend):
    """On a GPU they are made beside the rest, and what reads them earlier finds anything."""
    if backend == "faiss":
        pytest.importorskip("faiss")
    joined, searched = [], []

    class Watched(Aside):
        def join(self):
            joined.append(True)
            super().join()

    def reads_nothing_early(read, clusters_at):
        def watched(*args):
            assert args[clusters_at] is None or joined
            searched.append(args[clusters_at] is not None)
            return read(*args)

        return watched

    monkeypatch.setattr(afgrl, "Aside", Watched)
    monkeypatch.setattr(afgrl, "nearest", reads_nothing_early(afgrl.nearest, clusters_at=-1))
    monkeypatch.setattr(afgrl, "confirm", reads_nothing_early(afgrl.confirm, clusters_at=-2))
    state, inputs = begun(search=search, kmeans_backend=backend)
    plain_step(state.method, state.optimizer, state.rng, inputs)
    assert joined
    assert searched == [search == "clusters", True]


def test_what_is_kept_stays_in_its_place():
    """A recording finds the positives and centers where they were when it was made."""
    state, inputs = begun(refresh_every=1)
    places = set()
    for step in range(3):
        plain_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, 3))
        method = state.method
        places.add((method.matrix.other.data_ptr(), method.matrix.weight.data_ptr(), method.centers.data_ptr()))
    assert len(places) == 1


def test_aside_of_a_cpu_is_before():
    aside = Aside(torch.device("cpu"))
    with aside:
        value = torch.ones(2).sum()
    aside.join()
    assert value == 2
