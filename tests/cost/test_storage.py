"""Whether tables of training are in memory or in files."""

import functools
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from afgrl.analysis.clustering import cluster_run
from afgrl.analysis.quality.panel import assess_run
from afgrl.bench.planted import Planted, write_planted
from afgrl.config import resolve
from afgrl.cost import batch_memory, limits, machine, storage
from afgrl.cost.forecast import memory_warning, table_folder
from afgrl.cost.limits import check_memory
from afgrl.cost.memory import needed_memory
from afgrl.cost.storage import folder_after_training, plan_with_files, storage_plan
from afgrl.cost.workload import Workload
from afgrl.data import Dataset
from afgrl.errors import UserError
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.reading import begin_run
from afgrl.experiment.training import fit
from afgrl.methods import method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.ops import storage as tables
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.distributed import Processes

CPU = torch.device("cpu")
BATCHES = {"steps": 3, "refresh_every": 2}


@pytest.fixture
def load():
    """Of a graph with a million nodes."""
    return Workload(1_000_000, n_features=128, n_edges=20_000_000, nnz=128_000_000, device="cpu")


@pytest.fixture
def in_small_files(tmp_path, monkeypatch):
    """Every table is worth a file, and blocks are short; the list has the folder of each file that was made."""
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "SMALLEST", 1)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 500)
    made = []
    created = tables.tempfile.mkstemp
    monkeypatch.setattr(tables.tempfile, "mkstemp", lambda **options: made.append(options["dir"]) or created(**options))
    return made


def settings_of(graph, **given):
    return resolve(NodeEmbedderSettings, given, graph=graph)


def test_tables_are_in_files_if_they_do_not_fit(small_graph, load, monkeypatch):
    settings = settings_of(small_graph, **BATCHES)
    needed, in_files = needed_memory(settings, load), plan_with_files(settings, load)
    assert in_files.memory_bytes < needed
    assert 0 < in_files.disk_bytes <= needed
    assert storage_plan(settings, load, 2 * needed).folder is None
    assert storage_plan(settings, load, needed) == in_files  # beside what else a machine does
    monkeypatch.setattr(storage, "free_disk", lambda folder: 1000)
    assert storage_plan(settings, load, needed).folder is None


def test_full_batches_have_no_files(small_graph, load):
    assert plan_with_files(resolve(AFGRLSettings, graph=small_graph), load) is None


def test_what_fits_neither_names_a_setting_and_a_folder(small_graph, load, monkeypatch):
    settings = settings_of(small_graph, n_components=64, **BATCHES)
    in_files = plan_with_files(settings, load)
    monkeypatch.setattr(Workload, "of", lambda graph, device: load)
    monkeypatch.setattr(limits, "total_memory", lambda kind: in_files.memory_bytes)
    check_memory(method_class("node_embedder"), settings, small_graph, CPU)
    monkeypatch.setattr(storage, "free_disk", lambda folder: 0)
    with pytest.raises(
        UserError, match=r"iB; .*; or set AFGRL_CACHE to a folder with [\d.]+ .iB for temporary files\.$"
    ):
        check_memory(method_class("node_embedder"), settings, small_graph, CPU)


def test_processes_of_one_machine_are_refused_where_one_would_use_files(small_graph, load, tmp_path, monkeypatch):
    settings = settings_of(small_graph, n_components=64, **BATCHES)
    in_files = plan_with_files(settings, load)
    monkeypatch.setattr(Workload, "of", lambda graph, device: load)
    monkeypatch.setattr(limits, "total_memory", lambda kind: in_files.memory_bytes)
    write_planted(Planted(60, 200, features=4, classes=3), tmp_path / "source")
    spec = RunSpec(str(tmp_path / "source"), settings={"n_components": 64} | BATCHES)
    several, out = Processes(0, 2, CPU), tmp_path / "run"
    options = {"held": ExitStack(), "force": False, "with_features": True, "message": lambda sentence: None}
    begin = functools.partial(begin_run, spec, out, **options)
    with pytest.raises(UserError, match=r"iB; .*; or use one process, whose tables can be in temporary files\.$"):
        begin(several)
    assert not out.exists()
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")  # each machine has a part of the tables
    begin(several)


def test_a_run_with_tables_in_files_has_the_same_bits(tmp_path, in_small_files, monkeypatch):
    monkeypatch.setattr(batch_memory, "CHUNK_BYTES", 0)  # more than the tables of this graph
    sentences, vectors = [], []
    write_planted(Planted(1200, 6000, classes=5), tmp_path / "graph")
    for share in (1e9, 0.0):
        monkeypatch.setattr(storage, "MEMORY_SHARE", share)
        run = fit(
            RunSpec(str(tmp_path / "graph"), settings=BATCHES), tmp_path / f"run-{share}", CPU, message=sentences.append
        )
        vectors.append(run.embedding()[1])
    assert np.array_equal(*vectors)
    assert len(in_small_files) > 10
    assert set(in_small_files) == {tmp_path / "cache" / "spill"}
    assert not list((tmp_path / "cache" / "spill").iterdir())
    assert len([sentence for sentence in sentences if "temporary files of up to" in sentence]) == 1


def test_commands_after_training_answer_the_same_from_files(tmp_path, in_small_files, monkeypatch):
    write_planted(Planted(1200, 6000, classes=5, separation=2.0), tmp_path / "graph")
    spec = RunSpec(str(tmp_path / "graph"), settings=BATCHES, evaluation=EvaluationPlan(n_fits=1))
    run = fit(spec, tmp_path / "run", CPU)
    commands = [
        lambda: evaluate_run(run, CPU), lambda: cluster_run(run, 5), lambda: assess_run(run, CPU, quick=True),
    ]  # fmt: skip
    for command in commands:
        answers = []
        for share in (1e9, 0.0):
            monkeypatch.setattr(storage, "MEMORY_SHARE", share)
            in_small_files.clear()
            answers.append(command())
            assert bool(in_small_files) == (share == 0)
        assert answers[0] == answers[1]
        assert set(in_small_files) == {tmp_path / "cache" / "spill"}
    assert not list((tmp_path / "cache" / "spill").iterdir())


@pytest.mark.parametrize("method", ["svd", "ppr"])
def test_vectors_without_training_have_the_same_bits_in_files(method, tmp_path, in_small_files, monkeypatch):
    write_planted(Planted(1200, 6000, classes=5), tmp_path / "graph")
    vectors, sentences = [], []
    for share in (1e9, 0.0):
        monkeypatch.setattr(storage, "MEMORY_SHARE", share)
        spec = RunSpec(str(tmp_path / "graph"), method, settings={"n_components": 16})
        vectors.append(fit(spec, tmp_path / f"{share}", CPU, message=sentences.append).embedding()[1])
    assert len(in_small_files) > 4
    assert len([sentence for sentence in sentences if "Tables are in temporary files in" in sentence]) == 1
    assert np.array_equal(*vectors)


def test_tables_after_training_are_in_files_if_they_do_not_fit(small_graph, tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path))
    table = 4 * small_graph.n * 1000
    needed, disk = (factor * table for factor in (storage.TABLES_AFTER_TRAINING, storage.TABLES_IN_FILES))
    free = {"memory": 2 * needed, "disk": disk}
    monkeypatch.setattr(storage, "free_memory", lambda kind: free["memory"])
    monkeypatch.setattr(storage, "free_disk", lambda folder: free["disk"])
    assert folder_after_training(small_graph, 1000, CPU) is None
    free["memory"] = needed
    assert folder_after_training(small_graph, 1000, CPU) == tmp_path / "spill"
    free["disk"] = disk - 1
    assert folder_after_training(small_graph, 1000, CPU) is None  # it just fits into memory
    free["memory"] = needed - 1
    with pytest.raises(UserError, match=r"iB of disk, and .* set AFGRL_CACHE to a folder on a larger disk"):
        folder_after_training(small_graph, 1000, CPU)
    assert folder_after_training(small_graph, 1000, torch.device("cuda")) is None
    spec = RunSpec("demo", "svd", settings={"n_components": 1000})
    with pytest.raises(UserError, match="on a larger disk"):
        fit(spec, tmp_path / "run", CPU)
    assert not (tmp_path / "run").exists()


def test_a_folder_is_made_only_for_tables_in_files(small_graph, tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    settings = settings_of(small_graph, **BATCHES)
    assert table_folder(settings, small_graph, CPU) is None
    assert memory_warning(settings, Dataset("small", small_graph), CPU) is None
    assert not (tmp_path / "cache").exists()
    assert machine.free_disk(tmp_path / "cache") > 0
