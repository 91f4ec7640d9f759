"""One writer per run: who is refused, with which sentence, and what a holder that was killed leaves."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from afgrl.analysis.index import build_index
from afgrl.analysis.projection import project_run
from afgrl.cli.entry_point import app
from afgrl.errors import UserError
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.training import fit
from afgrl.runs.folder import Run
from afgrl.runs.lock import writing, writing_if_free
from afgrl.runs.spec import RunSpec

CPU = torch.device("cpu")
SPEC = RunSpec("demo", "svd", settings={"n_components": 4})
HOLD = (
    "import sys, time; from pathlib import Path; from afgrl.runs.lock import writing\n"
    "with writing(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(600)\n"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fit(SPEC, tmp_path_factory.mktemp("lock") / "run", CPU)


@pytest.fixture
def holder():
    """Starts processes that hold the lock of a folder."""
    started = []

    def hold(path):
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def afgrl(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_a_second_writer_is_told_who_writes(run, holder):
    process = holder(run.path)
    before = names(run.path)
    writers = (
        ["fit", "demo", "--out", run.path, "--force"], ["fit", "demo", "--out", run.path, "--resume"],
        ["fit", "demo", "--out", run.path], ["evaluate", run.path], ["cluster", run.path], ["quality", run.path],
        ["add", run.path, "new.csv"], ["remove", run.path, "new"], ["report", run.path], ["export", run.path],
        ["embed", run.path], ["search", run.path, "1", "--index"],
    )  # fmt: skip
    for words in writers:
        answer = afgrl(*words)
        assert answer.exit_code == 2, (words, answer.stderr, answer.exception)
        sentence = answer.stderr.strip().splitlines()[-1]
        assert sentence.startswith(f"The run {str(run.path)!r} is being written by a Python program (process "), words
        assert f"(process {process.pid} on " in sentence
        assert ", since 20" in sentence
        assert sentence.endswith("; wait for it to end, or stop it.")
    assert names(run.path) == before


def test_readers_are_never_blocked(run, holder, tmp_path):
    holder(run.path)
    for words in (
        ["search", run.path, "1"], ["embed", run.path, "--out", tmp_path / "vectors.npy"],
        ["report", run.path, "--map", "pca", "--out", tmp_path / "report.html"], ["export", run.path, "--out",
         tmp_path / "model.onnx"],
    ):  # fmt: skip
        answer = afgrl(*words)
        assert answer.exit_code == 0 or "cannot be exported" in answer.stderr, (words, answer.stderr, answer.exception)
    assert run.projection("pca") is None  # nothing was stored beside the writer
    Run.open(run.path)


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path, holder):
    path = tmp_path / "run"
    process = holder(path)
    assert names(tmp_path) == [".run.lock"]
    with pytest.raises(UserError, match="is being written"), writing(path):
        pass
    process.kill()
    process.wait()
    with writing(path, patience=0):
        assert names(tmp_path) == [".run.lock"]
    assert names(tmp_path) == []


def test_the_lock_is_of_the_path_and_not_of_the_folder(tmp_path, holder):
    """Deleted and made again by somebody else, the folder still belongs to the training that writes there."""
    path = tmp_path / "run"
    path.mkdir()
    holder(path)
    path.rmdir()
    path.mkdir()
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link", tmp_path / "link" / ".." / "run"):
        with pytest.raises(UserError, match="is being written"), writing(name):
            pass


def test_one_command_may_call_another(tmp_path):
    path = tmp_path / "run"
    with writing(path), writing(path), writing_if_free(path) as free:
        assert free
    assert names(tmp_path) == []


def test_another_thread_is_another_writer(tmp_path):
    refused = []

    def write():
        try:
            with writing(tmp_path / "run", patience=0):
                pass
        except UserError as error:
            refused.append(str(error))

    with writing(tmp_path / "run"):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert f"(process {os.getpid()} on " in refused[0]


def test_folders_that_were_made_for_the_lock_do_not_stay(tmp_path):
    with writing(tmp_path / "a" / "b" / "run"):
        assert (tmp_path / "a" / "b").is_dir()
    assert names(tmp_path) == []
    with writing(tmp_path / "a" / "b" / "run"):
        (tmp_path / "a" / "b" / "run").mkdir()
    assert (tmp_path / "a" / "b" / "run").is_dir()


@pytest.mark.skipif(os.name == "nt", reason="on Windows no folder can be locked")
def test_where_no_file_can_be_made_the_folder_is_locked(tmp_path, holder, monkeypatch):
    path = tmp_path / "run"
    path.mkdir()
    (tmp_path / ".run.lock").mkdir()  # stands for a parent without write permission, which root does not know
    holder(path)
    with pytest.raises(UserError, match="is being written by another command; wait"), writing(path):
        pass
    assert names(path) == []


def test_a_file_system_without_locks_is_written_as_before(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("afgrl.runs.lock._lock_file", unsupported)
    with writing(tmp_path / "run"):
        assert names(tmp_path) == []


def test_what_python_programs_write_is_locked_too(run, holder):
    from afgrl.estimators import SVD

    model = SVD(n_components=4, device="cpu").fit(run.dataset())
    holder(run.path)
    for write in (
        lambda: model.save(run.path, force=True), lambda: run.save_projection("pca", torch.zeros(1797, 2).numpy()),
        lambda: evaluate_run(run, CPU), lambda: build_index(run), lambda: fit(SPEC, run.path, CPU, force=True),
    ):  # fmt: skip
        with pytest.raises(UserError, match="is being written"):
            write()


def test_a_projection_of_vectors_that_were_replaced_meanwhile_is_not_stored(run, monkeypatch):
    monkeypatch.setattr(Run, "has_vectors", lambda self, vectors: False)
    assert len(project_run(run, "pca")) == 1797
    assert run.projection("pca") is None
    monkeypatch.undo()
    _, vectors = run.embedding()
    assert run.has_vectors(vectors)
    assert not run.has_vectors(vectors + 1)
    assert not run.has_vectors(vectors[:5])
    assert not Run(Path("nowhere")).has_vectors(vectors)


def test_a_training_without_a_folder_is_locked_once_it_has_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    save = Run.save_spec
    monkeypatch.setattr(Run, "save_spec", lambda self, spec: (seen.extend(names(Path("runs"))), save(self, spec)))
    fit(SPEC, None, CPU)
    assert seen == [".demo-svd.lock", "demo-svd"]
    assert names(tmp_path / "runs") == ["demo-svd"]
