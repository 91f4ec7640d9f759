"""CUDA graph capture, which needs a GPU; what capture requires of a method is tested everywhere."""

import copy

import pytest
import torch

from afgrl.config import resolve
from afgrl.methods import afgrl, available_methods
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts import positive_search
from afgrl.nn import Progress
from afgrl.ops.streams import SideStream
from afgrl.train.cuda_graph import eager_step
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from tests.conftest import communities, weighted
from tests.methods.short_runs import start_run

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
graphs = pytest.mark.parametrize("graph", [communities, lambda: weighted(communities())], ids=["plain", "weighted"])


def begun(**settings):
    graph = communities(size=60)
    small = {"n_components": 48, "predictor_width": 64, "n_clusters": 7, "epochs": 14, **settings}
    return initial_state("afgrl", resolve(AFGRLSettings, small, graph=graph), graph, DEVICE)


def by_eager_steps(state, inputs):
    epochs = state.method.settings.epochs
    state.method.train()
    for step in range(epochs):
        state.optimizer.set_learning_rate(state.method.learning_rate(Progress(step, epochs)))
        eager_step(state.method, state.optimizer, state.rng, inputs)
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
def test_captured_steps_give_the_bits_of_eager_steps(settings):
    captured, eager = begun(**settings), begun(**settings)
    training_loop(*captured)
    by_eager_steps(*eager)
    for ours, theirs in zip(captured[0].method.parameters(), eager[0].method.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@needs_gpu
@pytest.mark.parametrize("name", [name for name, method in available_methods().items() if method.trains])
@graphs
def test_every_method_trains_the_same_captured_or_eager(name, graph):
    captured, eager = (start_run(name, graph(), device=DEVICE, epochs=8) for _ in range(2))
    training_loop(*captured)
    by_eager_steps(*eager)
    for ours, theirs in zip(captured[0].method.parameters(), eager[0].method.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(*(state.method.embed(inputs) for state, inputs in (captured, eager)))


@needs_gpu
@pytest.mark.parametrize("name", list(available_methods()))
@graphs
def test_every_method_embeds_on_a_gpu_as_on_a_cpu(name, graph):
    """Before the first step, where nothing has been drawn on the device yet."""
    vectors = []
    for device in (DEVICE, torch.device("cpu")):
        state, inputs = start_run(name, graph(), device=device, epochs=0, precision="float32")
        vectors.append(state.method.embed(inputs).cpu())
    assert torch.allclose(*vectors, atol=1e-4)  # PyTorch may be set to use tf32


@needs_gpu
def test_resuming_on_a_gpu_equals_never_stopping():
    whole, half = begun(refresh_every=3), begun(refresh_every=3)
    saved = []
    training_loop(
        *half,
        callbacks=[lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint())) if state.step == 7 else None],
    )
    training_loop(*whole)
    again = begun(refresh_every=3)
    again[0].restore(saved[0])
    training_loop(*again)
    assert torch.equal(again[0].method.embed(again[1]), whole[0].method.embed(whole[1]))


def test_the_fast_path_and_the_references_train_alike(monkeypatch):
    losses = {}
    for choice in ("auto", "reference"):
        monkeypatch.setenv("AFGRL_OPS", choice)
        history = []
        training_loop(*begun(), callbacks=[lambda state, loss, history=history: history.append(loss.item())])
        losses[choice] = history
    # On a GPU bf16 decides a few positives otherwise and tf32 rounds; on a CPU sums have another order.
    assert losses["auto"] == pytest.approx(losses["reference"], rel=0.05)


def test_capture_keys():
    state, inputs = begun(refresh_every=2)
    keys = []
    for step in range(4):
        keys.append(state.method.capture_key())
        eager_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, 4))
    assert keys == ["first search", "reuse", "search", "reuse"]
    for settings in ({"n_layers": 2}, {"positives": "clusters"}):
        assert begun(**settings)[0].method.capture_key() is None


def test_a_search_in_clusters_is_not_captured_but_the_steps_between_refreshes_are():
    state, inputs = begun(refresh_every=2, search="clusters")
    assert state.method.capture_key() is None
    eager_step(state.method, state.optimizer, state.rng, inputs)
    state.method.after_step(Progress(1, 2))
    assert state.method.capture_key() == "reuse"


@pytest.mark.parametrize("search", ["exact", "clusters"])
def test_clusters_are_read_only_after_the_side_stream_has_joined(monkeypatch, search):
    """On a GPU k-means runs on a side stream, and whatever reads its labels earlier reads garbage."""
    joined, searched = [], []

    class Watched(SideStream):
        def join(self):
            joined.append(True)
            super().join()

    def reads_nothing_early(read, clusters_at):
        def watched(*args):
            assert args[clusters_at] is None or joined
            searched.append(args[clusters_at] is not None)
            return read(*args)

        return watched

    monkeypatch.setattr(afgrl, "SideStream", Watched)
    for name, place in (("candidate_pairs", -2), ("filter_pairs", -2)):
        read = getattr(positive_search, name)
        monkeypatch.setattr(positive_search, name, reads_nothing_early(read, clusters_at=place))
    state, inputs = begun(search=search)
    eager_step(state.method, state.optimizer, state.rng, inputs)
    assert joined
    assert searched == [search == "clusters", True]


def test_state_between_steps_keeps_its_memory():
    """A captured CUDA graph reads the positives and centers from the memory they were in at capture."""
    state, inputs = begun(refresh_every=1)
    places = set()
    for step in range(3):
        eager_step(state.method, state.optimizer, state.rng, inputs)
        state.method.after_step(Progress(step + 1, 3))
        search = state.method.search
        places.add((search.matrix.indices.data_ptr(), search.matrix.values.data_ptr(), search.centers.data_ptr()))
    assert len(places) == 1


def test_a_side_stream_on_a_cpu_runs_in_order():
    aside = SideStream(torch.device("cpu"))
    with aside:
        value = torch.ones(2).sum()
    aside.join()
    assert value == 2
