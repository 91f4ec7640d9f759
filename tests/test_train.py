import copy
import signal
import threading

import pytest
import torch

from afgrl.config import resolve
from afgrl.errors import AfgrlError, Interrupted, UserError
from afgrl.graph import Graph
from afgrl.methods import methods
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.ops import kmeans
from afgrl.steps import matmul_precision
from afgrl.train import Checkpoints, History, pick_device, start, stop_on_signals, train

CPU = torch.device("cpu")


def begun(graph, **settings):
    small = {"epochs": 25, "n_components": 8, "predictor_width": 8, "n_clusters": 4, "n_restarts": 2, "n_hops": 0}
    return start("afgrl", resolve(AFGRLConfig, small | settings).adapted(graph), graph, CPU)


def test_history_has_the_first_every_tenth_and_the_last_epoch(small_graph):
    history = []
    state, inputs = begun(small_graph)
    train(state, inputs, [History(history.append)])
    assert [line["epoch"] for line in history] == [1, 10, 20, 25]
    assert history[-1]["loss"] < history[0]["loss"]
    assert {"pairs", "local", "global"} <= history[0].keys()


def test_checkpoints_come_by_epochs_and_at_the_end(small_graph):
    saved = []
    state, inputs = begun(small_graph)
    train(state, inputs, [Checkpoints(lambda checkpoint: saved.append(checkpoint["step"]), every=10)])
    assert saved == [10, 20, 25]


def test_checkpoints_come_by_seconds_too(small_graph):
    saved = []
    state, inputs = begun(small_graph, epochs=3)
    train(state, inputs, [Checkpoints(lambda checkpoint: saved.append(checkpoint["step"]), every=1000, seconds=0)])
    assert saved == [1, 2, 3]


def test_a_signal_saves_and_stops_after_the_epoch(small_graph):
    saved = []
    state, inputs = begun(small_graph)

    def interrupt(state, loss):
        if state.step == 7:
            signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        checkpoints = Checkpoints(lambda checkpoint: saved.append(checkpoint["step"]), every=100, stop=stop)
        with pytest.raises(Interrupted, match="after epoch 7 of 25"):
            train(state, inputs, [interrupt, checkpoints])
    assert saved == [7]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_interrupts_at_once():
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_training_in_a_thread_leaves_signals_alone(small_graph):
    seen = []

    def work():
        with stop_on_signals() as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize("who", ["history", "checkpoints"])
def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(small_graph, who):
    saved = []
    state, inputs = begun(small_graph)

    def poison(state, loss):
        if state.step == 15:
            next(state.method.parameters()).data.fill_(torch.nan)

    checkpoints = Checkpoints(lambda checkpoint: saved.append(checkpoint["step"]), every=10)
    watchers = [History(lambda line: None), checkpoints] if who == "history" else [checkpoints]
    with pytest.raises(AfgrlError, match=r"diverged by epoch 20 \(loss nan\); a smaller learning_rate"):
        train(state, inputs, [poison, *watchers])
    assert saved == [10]


def test_parameters_are_looked_at_even_when_the_loss_is_finite(small_graph):
    saved = []
    state, inputs = begun(small_graph)

    def poison(state, loss):
        if state.step == 10:
            next(state.method.parameters()).data.fill_(torch.inf)

    with pytest.raises(AfgrlError, match="diverged"):
        train(state, inputs, [poison, Checkpoints(saved.append, every=10)])
    assert saved == []


def test_positives_are_searched_every_few_steps(small_graph, monkeypatch):
    found = []
    state, inputs = begun(small_graph, epochs=10, refresh_every=4)
    search = state.method._keep_positives
    monkeypatch.setattr(state.method, "_keep_positives", lambda *arguments: (found.append(1), search(*arguments)))
    train(state, inputs)
    assert len(found) == 3  # at the first, fifth and ninth step


@pytest.mark.parametrize("warm", [True, False])
def test_a_warm_start_begins_where_the_last_clusters_were(small_graph, monkeypatch, warm):
    begins, ends = [], []

    def watched(*args, centers, **options):
        begins.append(None if centers is None else centers.clone())
        found = kmeans(*args, centers=centers, **options)
        ends.append(found.centers.clone())
        return found

    monkeypatch.setattr("afgrl.methods.afgrl.kmeans", watched)
    state, inputs = begun(small_graph, epochs=4, warm_start=warm, refresh_every=1)
    train(state, inputs)
    assert len(begins) == 4
    assert begins[0] is None
    for begin, end in zip(begins[1:], ends, strict=False):
        assert torch.equal(begin, end) if warm else begin is None


@pytest.mark.parametrize("rule", ["knn", "knn+adj", "knn+clusters", "clusters", "all"])
@pytest.mark.parametrize("normalization", ["frozen", "batch", "layer", "none"])
def test_every_ablation_trains(small_graph, rule, normalization):
    state, inputs = begun(small_graph, epochs=3, positives=rule, normalization=normalization)
    train(state, inputs)
    assert torch.isfinite(state.method.represent(inputs)).all()


@pytest.mark.parametrize(
    "settings",
    [{"n_layers": 2}, {"n_hops": 2}, {"schedule": "authors"}, {"schedule": "constant"}, {"loss_over": "nodes"},
     {"include_self": False}, {"kmeans_backend": "faiss"}],
    ids=str,
)  # fmt: skip
def test_every_variant_trains(small_graph, settings):
    state, inputs = begun(small_graph, epochs=3, **settings)
    train(state, inputs)
    assert torch.isfinite(state.method.represent(inputs)).all()


def test_the_default_follows_the_graph(small_graph):
    few = Graph(torch.eye(small_graph.n), small_graph.edge_index[:, :20])
    many = Graph(torch.eye(20), torch.triu_indices(20, 20, 1))
    found = [(config.n_hops, config.epochs) for config in map(AFGRLConfig().adapted, (small_graph, many, few))]
    assert found == [(0, 2000), (1, 300), (2, 100)]
    said = AFGRLConfig(epochs=7, n_hops=3).adapted(small_graph)
    assert (said.n_hops, said.epochs) == (3, 7)


def test_precision_comes_back():
    before = torch.backends.cuda.matmul.fp32_precision
    with matmul_precision("tf32"):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_an_unknown_device_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="auto, cpu or cuda, not 'tpu'"):
        pick_device("tpu")
    with pytest.raises(UserError, match="sees no GPU"):
        pick_device("cuda")
    assert pick_device("auto") == CPU


def test_patience_ends_a_training_that_no_longer_falls(small_graph):
    seen = []
    config = resolve(methods()["dgi"].Config, {"epochs": 500, "n_components": 4, "patience": 5, "learning_rate": 1e-9})
    state, inputs = start("dgi", config, small_graph, CPU)
    train(state, inputs, [History(seen.append)])
    # Nothing is learned at such a rate: the lowest of a few random losses soon stays the lowest.
    assert state.step < 500
    assert state.step == state.last
    assert state.step % 10 == 0
    assert int(state.waited) >= 5
    assert seen[-1]["epoch"] == state.step
    endless, inputs = start("dgi", config.model_copy(update={"patience": 0, "epochs": 60}), small_graph, CPU)
    train(endless, inputs)
    assert endless.step == 60


def test_a_training_that_patience_ended_stays_ended(small_graph):
    config = resolve(methods()["dgi"].Config, {"epochs": 500, "n_components": 4, "patience": 5, "learning_rate": 1e-9})
    ended, inputs = start("dgi", config, small_graph, CPU)
    train(ended, inputs)
    resumed, inputs = start("dgi", config, small_graph, CPU)
    resumed.restore(ended.to_checkpoint())
    train(resumed, inputs)
    assert resumed.step == ended.step


def test_a_checkpoint_of_another_device_goes_on(small_graph):
    """Whose random numbers have a state of another size: 16 bytes on a GPU, thousands on a CPU."""
    whole, inputs = begun(small_graph)
    saved = []
    train(whole, inputs, [lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint()))])
    draws = []
    for size in (16, 16, len(saved[3]["rng"])):
        resumed, inputs = begun(small_graph)
        resumed.restore({**saved[3], "rng": torch.zeros(size, dtype=torch.uint8) if size == 16 else saved[3]["rng"]})
        draws.append(torch.rand(3, generator=resumed.rng))
        train(resumed, inputs)
        assert resumed.step == whole.step
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_resuming_keeps_patience(small_graph):
    config = resolve(methods()["dgi"].Config, {"epochs": 500, "n_components": 4, "patience": 15, "learning_rate": 1e-9})
    whole, inputs = start("dgi", config, small_graph, CPU)
    saved = []
    train(whole, inputs, [lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint()))])
    resumed, inputs = start("dgi", config, small_graph, CPU)
    resumed.restore(saved[3])
    train(resumed, inputs)
    assert resumed.step == whole.step
