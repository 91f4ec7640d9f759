"""What a killed process or a full disk leaves in a run folder, and what the next command makes of it."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from afgrl.data.leftovers import is_running
from afgrl.errors import UserError
from afgrl.experiment.training import fit, resume
from afgrl.runs import files, replace
from afgrl.runs.embeddings import write_vectors
from afgrl.runs.files import StorageError, replace_file, replace_files, save_torch
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec

CPU = torch.device("cpu")
SPEC = RunSpec("demo", "svd", settings={"n_components": 4})


@pytest.fixture(scope="module")
def dead():
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run")
    made.save_spec(SPEC)
    made.save_model({"weight": torch.ones(2)}, {"method": "svd"})
    return made


def names(path):
    return {file.name for file in path.iterdir()}


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_processes_are_told_apart(dead):
    assert is_running(os.getpid())
    assert is_running(1)  # belongs to another user, where the tests are not run by root
    assert not is_running(dead)
    assert is_running(10**30)


def test_opening_a_run_removes_the_temporary_files_of_dead_processes_only(run, dead):
    mine = {f".report.html.{os.getpid()}", f".notes.txt.{dead}", ".clusters.parquet.bak", "report.html"}
    for name in (*mine, f".clusters.parquet.{dead}", f".model.onnx.{dead}", f".embeddings-new.csv.{dead}"):
        (run.path / name).write_text("half")
    (run.path / f".embeddings.lance.{dead}").mkdir()
    Run.open(run.path)
    assert names(run.path) == mine | {"config.toml", "model.safetensors", "model.json"}


def test_writing_a_file_removes_what_a_dead_process_left_of_it(tmp_path, dead):
    for name in (f".vectors.csv.{dead}", f".other.csv.{dead}"):
        (tmp_path / name).write_text("half")
    write_vectors(tmp_path / "vectors.csv", np.arange(2), np.ones((2, 2)), "csv")
    assert names(tmp_path) == {"vectors.csv", f".other.csv.{dead}"}


def test_killed_while_the_config_was_written(tmp_path, dead):
    path = tmp_path / "run"
    path.mkdir()
    (path / f".config.toml.{dead}").write_text("format = ")
    with pytest.raises(UserError, match="is not a run"):
        Run.open(path)
    for force in (False, True):
        (path / f".config.toml.{dead}").write_text("format = ")
        Run.create(path, force=force)
        assert not names(path)


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"[run", b"x = 1"])
def test_a_run_with_a_damaged_config_is_named_and_can_be_replaced(run, damage, small_graph):
    from afgrl.data import Dataset

    run.save_dataset(Dataset("graph", small_graph))
    (run.path / "config.toml").write_bytes(damage)
    with pytest.raises(UserError, match=r"The file '.*config.toml' is damaged .*; train the run again with `afgrl fit"):
        Run.open(run.path)
    with pytest.raises(UserError, match="exists; use --resume"):
        Run.create(run.path)
    with Run.create(run.path, force=True).replacing():
        run.save_spec(SPEC)
        run.save_model({}, {})
    assert names(run.path) == {"config.toml", "model.safetensors", "model.json"}


def killed(number, path):
    """Rename files as the process ``number`` would have, had it been killed in the middle."""
    for file in path.iterdir():
        if file.name.endswith(f".{os.getpid()}"):
            file.rename(file.with_name(file.name.replace(str(os.getpid()), str(number))))


@pytest.mark.parametrize("n_moved", [0, 1, 2, 3])
def test_killed_while_the_old_run_was_set_aside(run, dead, monkeypatch, n_moved):
    before = contents(run.path)
    own = run._own_entries()
    moving = run.path / f".moving.{dead}"
    moving.mkdir()
    for file in own[:n_moved]:
        file.rename(moving / file.name)
    assert Run.open(run.path).spec() == SPEC
    assert contents(run.path) == before


def test_killed_before_the_new_run_had_begun(run, dead):
    before = contents(run.path)
    Run.create(run.path, force=True)
    killed(dead, run.path)
    (run.path / f".config.toml.{dead}").write_text("format")
    assert names(run.path) == {f".aside.{dead}", f".config.toml.{dead}"}
    Run.open(run.path)
    assert contents(run.path) == before


def test_killed_when_the_new_config_was_written_but_not_begun(run, dead, monkeypatch):
    before = contents(run.path)
    monkeypatch.setattr(replace, "begin", lambda path: None)
    Run.create(run.path, force=True).save_spec(RunSpec("other"))
    killed(dead, run.path)
    assert Run.open(run.path).spec() == SPEC
    assert contents(run.path) == before


def test_a_replacement_of_a_living_process_is_left_alone(run):
    Run.create(run.path, force=True)
    killed(1, run.path)  # process 1 always runs
    with pytest.raises(UserError, match="is not a run"):
        Run.open(run.path)
    assert names(run.path) == {".aside.1"}


def test_killed_while_the_previous_run_was_deleted(run):
    (run.path / ".previous").mkdir()
    (run.path / ".previous" / "config.toml").write_text("what is left of it")
    assert names(Run.open(run.path).path) == {"config.toml", "model.safetensors", "model.json"}


def test_an_incomplete_run_does_not_count_as_complete(run):
    """Killed between model.safetensors and model.json, it must not replace the complete run in .previous."""
    before = contents(run.path)
    new = Run.create(run.path, force=True)
    new.save_spec(RunSpec("other"))
    (run.path / "model.safetensors").write_bytes(b"new")
    with pytest.raises(MemoryError), Run.create(run.path, force=True).replacing():
        raise MemoryError
    assert contents(run.path) == before


def test_a_keyboard_interrupt_before_the_new_run_begins_restores_the_old_one(run):
    before = contents(run.path)
    with pytest.raises(KeyboardInterrupt), Run.create(run.path, force=True).replacing():
        raise KeyboardInterrupt
    assert contents(run.path) == before


# A full disk


def full_disk(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_names_the_file_and_keeps_the_old_one(tmp_path):
    file = tmp_path / "scores.json"
    file.write_text("old")
    with pytest.raises(OSError, match="No space left on device") as caught:
        replace_file(file, full_disk)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(file))
    assert contents(tmp_path) == {"scores.json": b"old"}


def test_pytorch_reports_a_full_disk_as_what_it_is():
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_torch("/dev/full", {"weight": torch.zeros(100_000)})
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("force", [False, True])
def test_a_full_disk_while_a_checkpoint_is_written(tmp_path, monkeypatch, force):
    """The sentence says how to resume, the last checkpoint is intact, and resuming equals never stopping."""
    settings = {"epochs": 4, "checkpoint_every": 2, "n_components": 8, "hidden_width": 8}
    spec = RunSpec("demo", "bgrl", settings=settings)
    path = tmp_path / "run"
    if force:
        fit(RunSpec("demo", "raw"), path, CPU)
    whole = fit(spec, tmp_path / "whole", CPU)
    save, n_saved = files.torch.save, []

    def save_once(*arguments):
        n_saved.append(1)
        return save(*arguments) if len(n_saved) == 1 else full_disk()

    with monkeypatch.context() as patch:
        patch.setattr(files.torch, "save", save_once)
        with pytest.raises(StorageError, match=r"No space left on device: '.*checkpoint.pt'; free some space, then"):
            fit(spec, path, CPU, force=force)
    run = Run.open(path)
    assert run.checkpoint(CPU)["step"] == 2
    assert (path / ".previous").is_dir() == force
    resume(run, CPU)
    assert np.array_equal(run.embedding()[1], whole.embedding()[1])
    assert not [name for name in names(path) if name.startswith(".")]


def test_a_full_disk_before_the_first_checkpoint_restores_the_old_run(tmp_path, monkeypatch):
    run = fit(RunSpec("demo", "raw"), tmp_path / "run", CPU)
    before = contents(run.path)
    monkeypatch.setattr(files.torch, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        fit(RunSpec("demo", "bgrl", settings={"epochs": 1, "n_components": 8}), run.path, CPU, force=True)
    assert contents(run.path) == before


# Files that belong together


def description(*sizes):
    cards = [{"cluster": i, "size": size, "features": [], "closest": []} for i, size in enumerate(sizes)]
    return {"k": len(sizes), "criterion": "user", "clustered": "embedding", "tried": [], "clusters": cards}


def test_clusters_and_their_description_change_by_one_rename(run, monkeypatch):
    renamed = []
    monkeypatch.setattr(os, "replace", lambda old, new, move=os.replace: (renamed.append(new.name), move(old, new)))
    run.save_clusters(np.arange(3), np.array([0, 1, 2]), description(1, 1, 1))
    assert renamed == ["clusters.parquet"]
    labels, stored = run.clusters()
    assert (labels.tolist(), stored) == ([0, 1, 2], description(1, 1, 1))


def test_clusters_of_earlier_versions_are_read(run):
    import pyarrow as pa
    import pyarrow.parquet as pq

    earlier = run.path / "clusters.json"
    pq.write_table(pa.table({"id": [0, 1], "cluster": pa.array([0, 1], pa.int32())}), run.clusters_file)
    assert run.clusters() is None  # killed before the second file
    earlier.write_text(json.dumps(description(1, 1)))
    assert run.clusters()[1] == description(1, 1)
    earlier.write_text(json.dumps(description(1, 1, 1)))
    with pytest.raises(UserError, match=r"clusters.parquet' is damaged .*not in the 3 clusters.*`afgrl cluster`"):
        run.clusters()
    run.save_clusters(np.arange(2), np.array([0, 0]), description(2))
    assert run.clusters()[1]["k"] == 1
    assert not earlier.exists()


def test_vectors_are_never_beside_the_ids_of_others(tmp_path, monkeypatch):
    """Whichever rename fails."""
    file, beside = tmp_path / "v.npy", tmp_path / "v.npy.ids.txt"
    for failing in (beside, file):
        write_vectors(file, np.arange(2), np.zeros((2, 2)), "npy")

        def move(old, new, failing=failing, move=os.replace):
            return full_disk() if new == failing else move(old, new)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", move)
            with pytest.raises(OSError, match="No space left"):
                write_vectors(file, np.arange(3), np.zeros((3, 2)), "npy")
        assert not file.exists()
        assert names(tmp_path) == {beside.name}


def test_nothing_is_renamed_before_all_is_written(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").write_text("old")
    with pytest.raises(OSError, match="No space left"):
        replace_files({tmp_path / "a": lambda path: path.write_text("new"), tmp_path / "b": full_disk})
    assert contents(tmp_path) == {"a": b"old", "b": b"old"}
