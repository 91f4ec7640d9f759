"""What a graph or a machine is too small for is refused before anything is allocated."""

import numpy as np
import pytest
import torch
import torch.utils._device as device_context
from typer.testing import CliRunner

from afgrl import AFGRL, BGRL, DGI, SVD, DeepWalk, Graph, NodeEmbedder, UserError
from afgrl.cli.entry_point import app
from afgrl.config import resolve
from afgrl.cost import limits, machine, program
from afgrl.cost.forecast import estimate_cost, memory_warning
from afgrl.cost.limits import check_memory, least_memory
from afgrl.cost.memory import needed_memory
from afgrl.cost.workload import Workload
from afgrl.data import Dataset
from afgrl.methods import Size, available_methods, method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from tests.control_groups import process_in_group

CPU = torch.device("cpu")
LABELS = {"n_classes": 2, "n_splits": 1}


@pytest.fixture(autouse=True)
def _garbage_in_uninitialized_memory():
    """Not here: PyTorch would not recognize the replaced functions as those that a device context applies to."""
    device_context._device_constructors.cache_clear()
    yield
    device_context._device_constructors.cache_clear()


@pytest.mark.parametrize("cls", [AFGRL, BGRL, DGI, DeepWalk])
@pytest.mark.parametrize("width", [10**9, 10**30])
def test_an_absurd_width_is_one_sentence_and_no_allocation(cls, width, small_graph, monkeypatch):
    monkeypatch.setattr("afgrl.estimators.base.initial_state", None)  # would allocate
    with pytest.raises(UserError, match=r"^Training needs .* with these settings, and the cpu has .*\.$"):
        cls(n_components=width, device="cpu").fit(small_graph)


def test_the_command_line_refuses_it_with_exit_code_2_and_no_folder(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    for setting, words in (("n_components=1000000000", "Training needs"), ("n_neighbors=100000", "at most 4 per node")):
        out = tmp_path / "run"
        answer = CliRunner().invoke(app, ["fit", str(tmp_path), "--out", str(out), "--set", setting, "--device", "cpu"])
        assert answer.exit_code == 2
        assert words in answer.stderr
        assert not out.exists()


@pytest.mark.parametrize("method", list(available_methods()))
def test_default_settings_of_every_method_pass(method, small_graph):
    cls = method_class(method)
    settings = resolve(cls.settings_class, LABELS if cls.needs_labels else {}, graph=small_graph)
    check_memory(cls, settings, small_graph, CPU)
    model = cls(settings, Size(small_graph.n, small_graph.n_features), torch.Generator())  # the real parameters
    assert least_memory(cls, settings, small_graph) >= 4 * sum(part.numel() for part in model.parameters())
    assert memory_warning(settings, Dataset("small", small_graph), CPU) is None


def test_a_method_that_reads_its_values_when_it_is_built_is_not_refused(small_graph):
    class Reads(method_class("random")):
        def __init__(self, settings, size, rng):
            super().__init__(settings, size, rng)
            self.first = next(self.parameters()).flatten()[0].item()  # a meta tensor has no values

    settings = resolve(Reads.settings_class, graph=small_graph)
    assert least_memory(Reads, settings, small_graph) == 0
    check_memory(Reads, settings, small_graph, CPU)


def test_vectors_without_training_are_never_wider_than_their_directions(small_graph):
    assert SVD(n_components=10**9, device="cpu").fit_transform(small_graph).shape == (small_graph.n, 48)


def test_what_exceeds_the_memory_of_the_machine_names_settings_that_fit(small_graph, monkeypatch):
    settings = resolve(AFGRLSettings, {"epochs": 1, "n_components": 2048}, graph=small_graph)
    cls, load = method_class("afgrl"), Workload.of(small_graph, "cpu")
    needed = needed_memory(settings, load)
    monkeypatch.setattr(limits, "total_memory", lambda kind: int(needed / 1.2))
    check_memory(cls, settings, small_graph, CPU)  # within the error of the estimate
    monkeypatch.setattr(limits, "total_memory", lambda kind: int(needed / 1.3))
    with pytest.raises(UserError, match=r"n_components=1024, predictor_width=2048 would fit"):
        check_memory(cls, settings, small_graph, CPU)


@pytest.mark.parametrize("method", ["dgi", "cca_ssg", "deepwalk"])
def test_other_methods_are_refused_if_their_parameters_and_vectors_do_not_fit(method, small_graph, monkeypatch):
    cls = method_class(method)
    settings = resolve(cls.settings_class, graph=small_graph)
    least = least_memory(cls, settings, small_graph)
    monkeypatch.setattr(limits, "total_memory", lambda kind: int(1.01 * least))
    check_memory(cls, settings, small_graph, CPU)
    monkeypatch.setattr(limits, "total_memory", lambda kind: int(0.99 * least))
    with pytest.raises(UserError, match=r"^Training needs at least .* use a smaller width\.$"):
        check_memory(cls, settings, small_graph, CPU)


def test_the_total_is_that_of_the_machine_or_the_smallest_limit_without_what_is_in_use(tmp_path, monkeypatch):
    _, group = process_in_group(tmp_path, 2)
    monkeypatch.setattr(machine, "control_groups", lambda controller: [group])
    monkeypatch.setattr(machine, "_of_machine", lambda *fields: 7000 if fields == ("MemTotal", "SwapTotal") else 0)
    monkeypatch.setattr(machine, "anonymous_memory", lambda: 300)
    assert machine.total_memory("cpu") == 6700
    (group / "memory.max").write_text("5000\n")
    assert machine.total_memory("cpu") == 4700
    monkeypatch.setattr(machine, "free_addresses", lambda: 4600)
    assert machine.total_memory("cpu") == 4600
    (group / "memory.max").write_text("200\n")
    assert machine.total_memory("cpu") == 0


def test_the_estimate_contains_the_program(small_graph, monkeypatch):
    monkeypatch.setattr("afgrl.cost.forecast.program_memory", lambda: (400 << 20, 500 << 20))
    (row,) = (row for row in estimate_cost(Dataset("small", small_graph), {})["devices"] if row["device"] == "cpu")
    settings = resolve(NodeEmbedderSettings, {}, graph=small_graph)
    assert row["memory_bytes"] == (400 << 20) + needed_memory(settings, Workload.of(small_graph, "cpu"))
    monkeypatch.setattr("afgrl.cost.forecast.program_memory", lambda: (400 << 20, 9 << 40))  # while reading the graph
    (row, *_) = estimate_cost(Dataset("small", small_graph), {})["devices"]
    assert row["memory_bytes"] == 9 << 40


def test_the_memory_of_this_process(monkeypatch):
    now, most = program.program_memory()
    assert 100 << 20 < now <= most
    monkeypatch.setattr(program.Path, "read_text", lambda *args, **options: "")  # not Linux
    assert program.program_memory() == (program.UNKNOWN, program.UNKNOWN)


# Neighbors


@pytest.mark.parametrize(("include_self", "most"), [(True, 5), (False, 4)])
@pytest.mark.parametrize(("cls", "mode"), [(NodeEmbedder, {"steps": 2}), (AFGRL, {"epochs": 2})])
def test_more_neighbors_than_nodes_are_refused(include_self, most, cls, mode):
    graph = Graph(np.eye(5), np.array([[0, 1, 2], [1, 2, 3]]))
    settings = mode | {"include_self": include_self, "n_clusters": 2, "n_components": 2, "device": "cpu"}
    assert cls(n_neighbors=most, **settings).fit_transform(graph).shape == (5, 2)
    with pytest.raises(UserError, match=f"'n_neighbors' cannot be {most + 1}: a graph of 5 nodes has at most {most}"):
        cls(n_neighbors=most + 1, **settings).fit(graph)


@pytest.mark.parametrize("cls", [AFGRLSettings, NodeEmbedderSettings])
@pytest.mark.parametrize("include_self", [True, False, "false"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_defaults_of_small_graphs_are_valid_and_can_be_given_again(n, include_self, cls):
    graph = Graph(np.eye(3)[:n], np.empty((2, 0)))
    settings = resolve(cls, {"include_self": include_self}, graph=graph)
    most = 4 if cls is AFGRLSettings else 12
    assert settings.n_neighbors == min(most, max(1, n if include_self is True else n - 1))
    assert resolve(cls, settings.model_dump(), graph=graph) == settings  # as `--config` of a run does
