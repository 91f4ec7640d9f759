import copy
import signal
import threading

import pytest
import torch

from afgrl.config import EpochSettings, resolve
from afgrl.errors import AfgrlError, Interrupted, UserError
from afgrl.graph import Graph
from afgrl.methods import available_methods
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.nn import Progress
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.optim import Adam
from afgrl.train.callbacks import Checkpoints, History, Stopwatch
from afgrl.train.cuda_graph import matmul_precision
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.signals import stop_on_signals
from afgrl.train.state import TrainState, initial_state

CPU = torch.device("cpu")


def begun(graph, **settings):
    small = {"epochs": 25, "n_components": 8, "predictor_width": 8, "n_clusters": 4, "n_restarts": 2, "n_hops": 0}
    return initial_state("afgrl", resolve(AFGRLSettings, small | settings, graph=graph), graph, CPU)


def test_history_has_the_first_every_tenth_and_the_last_epoch(small_graph):
    history = []
    state, inputs = begun(small_graph)
    training_loop(state, inputs, [History(history.append)])
    assert [line["epoch"] for line in history] == [1, 10, 20, 25]
    assert history[-1]["loss"] < history[0]["loss"]
    assert {"pairs", "local", "global"} <= history[0].keys()


def test_checkpoints_come_by_epochs_and_at_the_end(small_graph):
    saved = []
    state, inputs = begun(small_graph)
    training_loop(state, inputs, [Checkpoints(lambda state: saved.append(state.step), every=10)])
    assert saved == [10, 20, 25]


def test_checkpoints_come_by_seconds_too(small_graph):
    saved = []
    state, inputs = begun(small_graph, epochs=10)
    clock = iter(range(0, 1000, 25))  # every look at it is 25 seconds later
    save = lambda state: saved.append(state.step)  # noqa: E731
    training_loop(state, inputs, [Checkpoints(save, every=1000, seconds=60, clock=lambda: next(clock))])
    assert saved == [3, 6, 9, 10]


def test_the_stopwatch_counts_training_only(small_graph):
    now = [0.0]
    stopwatch = Stopwatch(clock=lambda: now[0])
    state, inputs = begun(small_graph, epochs=4)

    def train(state, loss):
        now[0] += 2

    def evaluate(state, loss):
        now[0] += 100
        stopwatch.restart()

    training_loop(state, inputs, [train, stopwatch, evaluate])
    assert state.seconds == 8
    restored, _ = begun(small_graph, epochs=4)
    restored.restore(state.to_checkpoint())
    assert restored.seconds == 8


def test_a_signal_saves_and_stops_after_the_epoch(small_graph):
    saved = []
    state, inputs = begun(small_graph)

    def interrupt(state, loss):
        if state.step == 7:
            signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        checkpoints = Checkpoints(lambda state: saved.append(state.step), every=100, stop=stop)
        with pytest.raises(Interrupted, match="after epoch 7 of 25"):
            training_loop(state, inputs, [interrupt, checkpoints])
    assert saved == [7]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_interrupts_at_once(second):
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)


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

    checkpoints = Checkpoints(lambda state: saved.append(state.step), every=10)
    watchers = [History(lambda line: None), checkpoints] if who == "history" else [checkpoints]
    with pytest.raises(AfgrlError, match=r"diverged by epoch 20 \(loss nan\); try a smaller learning_rate"):
        training_loop(state, inputs, [poison, *watchers])
    assert saved == [10]


def test_parameters_are_looked_at_even_when_the_loss_is_finite(small_graph):
    saved = []
    state, inputs = begun(small_graph)

    def poison(state, loss):
        if state.step == 10:
            next(state.method.parameters()).data.fill_(torch.inf)

    with pytest.raises(AfgrlError, match="diverged"):
        training_loop(state, inputs, [poison, Checkpoints(saved.append, every=10)])
    assert saved == []


def test_positives_are_searched_every_few_steps(small_graph, monkeypatch):
    found = []
    state, inputs = begun(small_graph, epochs=10, refresh_every=4)
    search = state.method.search.run
    monkeypatch.setattr(state.method.search, "run", lambda *arguments: (found.append(1), search(*arguments)))
    training_loop(state, inputs)
    assert len(found) == 3  # at the first, fifth and ninth step


@pytest.mark.parametrize("warm", [True, False])
def test_a_warm_start_begins_where_the_last_clusters_were(small_graph, monkeypatch, warm):
    begins, ends = [], []

    def watched(*args, centers, **options):
        begins.append(None if centers is None else centers.clone())
        found = run_kmeans(*args, centers=centers, **options)
        ends.append(found.centers.clone())
        return found

    monkeypatch.setattr("afgrl.methods.parts.positive_search.run_kmeans", watched)
    state, inputs = begun(small_graph, epochs=4, warm_start=warm, refresh_every=1)
    training_loop(state, inputs)
    assert len(begins) == 4
    assert begins[0] is None
    for begin, end in zip(begins[1:], ends, strict=False):
        assert torch.equal(begin, end) if warm else begin is None


@pytest.mark.parametrize("rule", ["knn", "knn+adj", "knn+clusters", "clusters", "all"])
@pytest.mark.parametrize("normalization", ["frozen", "batch", "none"])
def test_every_ablation_trains(small_graph, rule, normalization):
    state, inputs = begun(small_graph, epochs=3, positives=rule, normalization=normalization)
    training_loop(state, inputs)
    assert torch.isfinite(state.method.embed(inputs)).all()


@pytest.mark.parametrize(
    "settings",
    [{"n_layers": 2}, {"n_hops": 2}, {"schedule": "authors"}, {"schedule": "constant"}, {"loss_over": "nodes"},
     {"include_self": False}],
    ids=str,
)  # fmt: skip
def test_every_variant_trains(small_graph, settings):
    state, inputs = begun(small_graph, epochs=3, **settings)
    training_loop(state, inputs)
    assert torch.isfinite(state.method.embed(inputs)).all()


def test_the_default_follows_the_graph(small_graph):
    few = Graph(torch.eye(small_graph.n), small_graph.edge_index[:, :20])
    many = Graph(torch.eye(20), torch.triu_indices(20, 20, 1))
    found = [resolve(AFGRLSettings, graph=graph) for graph in (small_graph, many, few)]
    assert [(settings.n_hops, settings.epochs) for settings in found] == [(0, 2000), (1, 300), (2, 100)]
    found = [resolve(NodeEmbedderSettings, graph=graph) for graph in (small_graph, many, few)]
    assert [(settings.input, settings.n_hops) for settings in found] == [("svd", 1), ("own", 1), ("features", 2)]
    given = resolve(AFGRLSettings, {"epochs": 7, "n_hops": 3}, graph=small_graph)
    assert (given.n_hops, given.epochs) == (3, 7)


def test_precision_comes_back():
    before = torch.backends.cuda.matmul.fp32_precision
    with matmul_precision("tf32"):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_an_unknown_device_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="auto, cpu or cuda, not 'tpu'"):
        choose_device("tpu")
    with pytest.raises(UserError, match="finds no GPU"):
        choose_device("cuda")
    assert choose_device("auto") == CPU


def impatient(patience):
    """Nothing is learned at such a rate, so the loss soon stops falling."""
    given = {"epochs": 500, "n_components": 4, "patience": patience, "learning_rate": 1e-9}
    return resolve(available_methods()["dgi"].settings_class, given)


def test_patience_ends_a_training_that_no_longer_falls(small_graph):
    seen = []
    config = resolve(
        available_methods()["dgi"].settings_class,
        {"epochs": 500, "n_components": 4, "patience": 5, "learning_rate": 1e-9},
    )
    state, inputs = initial_state("dgi", config, small_graph, CPU)
    training_loop(state, inputs, [History(seen.append)])
    # Nothing is learned at such a rate: the lowest of a few random losses soon stays the lowest.
    assert state.step < 500
    assert state.step == state.last
    assert state.step % 10 == 0
    assert int(state.waited) >= 5
    assert seen[-1]["epoch"] == state.step
    endless, inputs = initial_state("dgi", config.model_copy(update={"patience": 0, "epochs": 60}), small_graph, CPU)
    training_loop(endless, inputs)
    assert endless.step == 60


def test_a_training_that_patience_ended_stays_ended(small_graph):
    config = resolve(
        available_methods()["dgi"].settings_class,
        {"epochs": 500, "n_components": 4, "patience": 5, "learning_rate": 1e-9},
    )
    ended, inputs = initial_state("dgi", config, small_graph, CPU)
    training_loop(ended, inputs)
    resumed, inputs = initial_state("dgi", config, small_graph, CPU)
    resumed.restore(ended.to_checkpoint())
    training_loop(resumed, inputs)
    assert resumed.step == ended.step


def test_a_checkpoint_of_another_device_goes_on(small_graph):
    """Whose random numbers have a state of another size: 16 bytes on a GPU, thousands on a CPU."""
    whole, inputs = begun(small_graph)
    saved = []
    training_loop(whole, inputs, [lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint()))])
    draws = []
    for size in (16, 16, len(saved[3]["rng"])):
        resumed, inputs = begun(small_graph)
        resumed.restore({**saved[3], "rng": torch.zeros(size, dtype=torch.uint8) if size == 16 else saved[3]["rng"]})
        draws.append(torch.rand(3, generator=resumed.rng))
        training_loop(resumed, inputs)
        assert resumed.step == whole.step
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    fresh, _ = begun(small_graph)
    assert not torch.equal(draws[0], torch.rand(3, generator=fresh.rng))  # does not repeat the first draws


def test_resuming_keeps_patience(small_graph):
    config = resolve(
        available_methods()["dgi"].settings_class,
        {"epochs": 500, "n_components": 4, "patience": 15, "learning_rate": 1e-9},
    )
    whole, inputs = initial_state("dgi", config, small_graph, CPU)
    saved = []
    training_loop(whole, inputs, [lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint()))])
    resumed, inputs = initial_state("dgi", config, small_graph, CPU)
    resumed.restore(saved[3])
    training_loop(resumed, inputs)
    assert resumed.step == whole.step


class Scripted(Method):
    """A method whose losses are given, and which records what the loop passes to it."""

    name = "scripted"
    settings_class = EpochSettings

    def __init__(self, settings, losses):
        super().__init__(settings, Size(2, 2), torch.Generator())
        self.losses, self.weight = list(losses), torch.nn.Parameter(torch.zeros(()))
        self.rates, self.progress, self.modes = [], [], []

    def prepare(self, graph):
        return None

    def encode(self, inputs):
        return torch.zeros(2, 2)

    def loss(self, inputs, rng):
        self.modes.append(self.training)
        return self.losses[len(self.modes) - 1] + 0 * self.weight

    def learning_rate(self, progress):
        self.rates.append(progress)
        return 10.0 ** -(1 + progress.step)

    def after_step(self, progress):
        self.progress.append(progress)


def scripted(losses, **settings):
    method = Scripted(EpochSettings(epochs=len(losses), **settings), losses)
    optimizer = Adam([method.weight], 1.0, weight_decay=0.0, decoupled=True)
    return TrainState(method, optimizer, torch.Generator(), len(losses), torch.tensor(torch.inf), torch.tensor(0))


def test_the_loop_passes_progress_and_sets_the_learning_rate():
    state = scripted([1.0, 2.0, 3.0])
    state.method.eval()
    rates = []
    training_loop(state, None, [lambda state, loss: rates.append(state.optimizer.param_groups[0]["lr"])])
    assert state.method.rates == [Progress(0, 3), Progress(1, 3), Progress(2, 3)]
    assert state.method.progress == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
    assert rates == pytest.approx([0.1, 0.01, 0.001])
    assert state.method.modes == [True, True, True]


@pytest.mark.parametrize(
    ("patience", "last"),
    [(19, 30), (20, 30), (21, 40), (0, 60)],  # the lowest loss is that of epoch 10; patience is checked every ten
)
def test_patience_counts_epochs_since_the_lowest_loss(patience, last):
    losses = [10.0 - epoch for epoch in range(10)] + [5.0] * 50
    state = scripted(losses, patience=patience)
    training_loop(state, None)
    assert (state.step, state.last) == (last, last)


def test_an_equal_loss_is_not_lower():
    state = scripted([1.0] * 60, patience=9)
    training_loop(state, None)
    assert state.step == 10
    assert int(state.waited) == 9


def test_patience_continues_from_a_checkpoint():
    losses = [10.0 - epoch for epoch in range(10)] + [5.0] * 50
    state = scripted(losses, patience=25)
    saved = []
    training_loop(state, None, [lambda state, loss: saved.append(copy.deepcopy(state.to_checkpoint()))])
    assert state.step == 40
    resumed = scripted(losses, patience=25)
    resumed.restore(saved[24])  # epoch 25: 15 epochs after the lowest loss
    assert (float(resumed.lowest), int(resumed.waited)) == (1.0, 15)
    resumed.method.modes = [True] * 25
    training_loop(resumed, None)
    assert resumed.step == 40


def test_history_alone_stops_at_a_loss_that_is_not_finite():
    state = scripted([1.0] * 19 + [float("nan")] * 20)
    with pytest.raises(AfgrlError, match=r"diverged by epoch 20 \(loss nan\)"):
        training_loop(state, None, [History(lambda record: None)])


def test_auto_is_the_gpu_if_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(name).type for name in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
