"""Runs of several processes: checkpoints, another number of processes, a killed process, the command line."""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from afgrl.cli import processes as command
from afgrl.errors import UserError
from afgrl.experiment import training
from afgrl.experiment.training import fit, resume
from afgrl.methods.parts.positive_search import PositiveSearch
from afgrl.runs.checkpoints import checkpoint_folder, latest_folder
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec
from afgrl.train import loop
from afgrl.train.distributed import Processes, joined_processes
from afgrl.train.sharded_checkpoint import load_shards
from tests.conftest import communities
from tests.methods.short_runs import CPU
from tests.train.processes import run_processes

SETTINGS = {"steps": 40, "batch_size": 20, "n_components": 8, "encoder_width": 8, "predictor_width": 8, "skip": "svd"}
SETTINGS |= {"n_clusters": 4, "n_restarts": 2, "refresh_every": 7, "checkpoint_every": 10}


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """Of a small graph in a file."""
    graph = communities()
    file = tmp_path_factory.mktemp("source") / "graph.pt"
    torch.save({"x": graph.x, "edge_index": graph.edge_index}, file)
    return RunSpec(str(file), settings=SETTINGS)


def fit_in_processes(rank, n_processes, spec, out, killed_after=None):
    """Trains; all processes end after the step ``killed_after``."""

    def kill(state, loss):
        if state.step == killed_after:
            raise KeyboardInterrupt

    train = loop.training_loop
    training.training_loop = lambda state, inputs, callbacks: train(state, inputs, [*callbacks, kill])
    with contextlib.suppress(KeyboardInterrupt):
        fit(spec, out, Processes(rank, n_processes, CPU))


def resume_in_processes(rank, n_processes, out):
    resume(Run.open(out), Processes(rank, n_processes, CPU))


@pytest.fixture(scope="module")
def complete(spec, tmp_path_factory):
    """A run of two processes that nothing disturbed."""
    out = tmp_path_factory.mktemp("runs") / "complete"
    run_processes(2, fit_in_processes, spec, out)
    return Run.open(out)


@pytest.fixture
def unfinished(spec, tmp_path):
    """A run of two processes that were killed after step 15; its last checkpoint is of step 10."""
    run_processes(2, fit_in_processes, spec, tmp_path / "run", 15)
    return Run.open(tmp_path / "run")


def test_a_run_of_two_processes_is_a_run_like_any_other(complete):
    ids, vectors = complete.embedding()
    assert vectors.shape == (62, 8)
    assert np.isfinite(vectors).all()
    assert ids.tolist() == list(range(62))
    assert complete.is_complete
    assert complete.model_description()["epochs"] == 40
    assert [line["epoch"] for line in complete.lines(HISTORY)] == [1, 10, 20, 30, 40]
    assert not list(complete.path.glob("checkpoint*"))


def test_resuming_with_as_many_processes_gives_the_same_bits(complete, unfinished):
    assert latest_folder(unfinished.path) == checkpoint_folder(unfinished.path, 10)
    run_processes(2, resume_in_processes, unfinished.path)
    assert np.array_equal(unfinished.embedding()[1], complete.embedding()[1])


def test_another_number_of_processes_continues(complete, unfinished):
    """Three processes, then one without torchrun."""
    losses = [line["loss"] for line in complete.lines(HISTORY)]
    run_processes(3, resume_in_processes, unfinished.path)
    assert [line["loss"] for line in unfinished.lines(HISTORY)] == pytest.approx(losses, abs=1e-2)
    before = unfinished.embedding()[1]
    (unfinished.path / "embeddings.parquet").unlink()
    resume(Run.open(unfinished.path), CPU)  # nothing is left to train
    assert np.abs(unfinished.embedding()[1] - before).max() < 0.05


def test_one_process_continues_without_a_new_search(unfinished, monkeypatch):
    """The checkpoint of step 10 has the pull of all nodes, so that the next refresh is the one of step 15."""
    refreshed = []
    find = PositiveSearch.find

    def watched(self, *arguments):
        refreshed.append(True)
        return find(self, *arguments)

    monkeypatch.setattr(PositiveSearch, "find", watched)
    monkeypatch.setattr(Run, "drop_checkpoint", lambda self: None)
    checkpoint = unfinished.checkpoint(CPU)
    resume(unfinished, CPU)
    assert checkpoint["method"]["_extra_state"]["pull"].shape == (62, 8)
    assert len(refreshed) == 4  # at steps 15, 22, 29 and 36
    alone = torch.load(unfinished.path / "checkpoint.pt", weights_only=True)["method"]["_extra_state"]
    stored = {name for name, value in alone.items() if value is not None}
    assert set(checkpoint["method"]["_extra_state"]) == stored


def test_several_processes_continue_what_one_began(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "drop_checkpoint", lambda self: None)
    one = fit(RunSpec(spec.source, settings=SETTINGS | {"steps": 20}), tmp_path / "one", CPU)
    (one.path / "model.json").unlink()
    text = (one.path / "config.toml").read_text()
    (one.path / "config.toml").write_text(text.replace("steps = 20", "steps = 40"))
    checkpoint = torch.load(one.path / "checkpoint.pt", weights_only=True)
    torch.save(checkpoint | {"last": 40}, one.path / "checkpoint.pt")
    run_processes(2, resume_in_processes, one.path)
    assert Run.open(one.path).model_description()["epochs"] == 40
    assert not (one.path / "checkpoint.pt").exists()


def restarting(n_processes):
    """As `torchrun --max-restarts 1`, but its processes are forked."""
    return LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=n_processes, run_id="test", rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", max_restarts=1, monitor_interval=0.1, start_method="fork",
    )  # fmt: skip


def fit_and_die(spec, out):
    """As a process of torchrun; process 1 of the first start dies after step 25."""

    def die(state, loss):
        first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if first and dist.get_rank() == 1 and state.step == 25:
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)
    train = loop.training_loop
    training.training_loop = lambda state, inputs, callbacks: train(state, inputs, [*callbacks, die])
    messages = []
    with joined_processes(CPU) as processes:
        fit(spec, out, processes, message=messages.append)
    return messages  # of the second start


def write_beside(rank, n_processes, spec, out):
    """All of them get the sentence of process 0."""
    with pytest.raises(UserError, match="is being written by"):
        fit(spec, out, Processes(rank, n_processes, CPU), force=True)
    with pytest.raises(UserError, match="is being written by"):
        resume(Run(out), Processes(rank, n_processes, CPU))


def test_all_processes_of_a_training_are_one_writer(complete, spec, tmp_path):
    """``complete`` was written by two processes under one lock; here another command has it."""
    before = {file.name: file.read_bytes() for file in complete.path.iterdir()}
    with complete.writing():
        run_processes(2, write_beside, spec, complete.path)
    assert {file.name: file.read_bytes() for file in complete.path.iterdir()} == before
    assert [file.name for file in complete.path.parent.iterdir()] == ["complete"]


def test_after_a_killed_process_torchrun_restarts_and_training_continues(complete, spec, tmp_path):
    results = elastic_launch(restarting(2), fit_and_die)(spec, tmp_path / "run")
    for messages in results.values():
        assert messages[-1:] == [
            "A process has ended, so all were started again; training continues from the last checkpoint."
        ]
    run = Run.open(tmp_path / "run")
    assert np.array_equal(run.embedding()[1], complete.embedding()[1])
    assert run.lines(HISTORY)[-1]["loss"] == complete.lines(HISTORY)[-1]["loss"]


def test_a_checkpoint_cannot_execute_code(unfinished):
    folder = checkpoint_folder(unfinished.path, 10)
    (folder / ".metadata").write_bytes(pickle.dumps(os.system))
    with pytest.raises(pickle.UnpicklingError, match="it refers to"):
        load_shards(folder, CPU, None)
    with pytest.raises(UserError, match="checkpoint-10"):
        unfinished.checkpoint(CPU)


def afgrl(*words):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "afgrl", *map(str, words)], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_the_command_starts_the_processes(spec, complete, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    assignments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    done = afgrl("fit", spec.source, "--out", tmp_path / "run", "--nproc", 2, "--quiet", *assignments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Saved to")
    assert done.stdout.count("Saved to") == 1
    assert np.array_equal(Run.open(tmp_path / "run").embedding()[1], complete.embedding()[1])
    assert not list(temporary.iterdir())


def test_an_error_of_the_processes_is_one_sentence(spec, tmp_path):
    done = afgrl("fit", spec.source, "--out", tmp_path / "run", "--nproc", 2, "--set", "patience=2")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("set it to 0, or use one process.")
    assert not (tmp_path / "run").exists()


def test_more_processes_than_the_memory_holds_are_refused_before_they_start(monkeypatch):
    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", None)  # nothing may be started
    with pytest.raises(UserError, match=r"^500,000 processes need at least 71\.5 TiB, and .* are free; use a"):
        command.launch(500_000, RunSpec("demo"), None)


def test_torchrun_needs_the_name_of_the_run(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match="--out must name the run folder"):
        command.as_worker(RunSpec("demo"), None, "cpu", None, force=False, quiet=True)


def refit(spec, out):
    with joined_processes(CPU) as processes:
        fit(spec, out, processes)


def test_after_a_restart_the_run_of_another_command_is_not_continued(complete, spec):
    """torchrun also restarts processes that ended with an error, such as that of a run that exists."""
    files = {file: file.read_bytes() for file in complete.path.rglob("*") if file.is_file()}
    with pytest.raises(ChildFailedError) as raised:
        elastic_launch(restarting(1), refit)(RunSpec(spec.source, settings=SETTINGS | {"steps": 3}), complete.path)
    _, first = raised.value.get_first_failure()
    assert "exists; use --resume to continue it" in str(first.message)
    assert {file: file.read_bytes() for file in complete.path.rglob("*") if file.is_file()} == files


def test_two_machines_give_the_bits_of_one(spec, complete, tmp_path):
    """Both are this one, each with its own torchrun. The source given to the second does not exist."""
    assignments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    endpoint = f"127.0.0.1:{free_port()}"

    def torchrun(address, source):
        words = [
            "--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 0, "--local-addr", address,
            "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "test",
            "-m", "afgrl", "fit", source, "--out", tmp_path / "run", "--device", "cpu", *assignments,
        ]  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", *map(str, words)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    machines = [torchrun("127.0.0.1", spec.source), torchrun("127.0.0.2", tmp_path / "none.pt")]
    try:
        outputs = [machine.communicate(timeout=120) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], outputs
    assert [output.count("Saved to") for output, _ in outputs] == [1, 0]
    assert np.array_equal(Run.open(tmp_path / "run").embedding()[1], complete.embedding()[1])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
