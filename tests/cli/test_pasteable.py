"""What a user pastes or types: the next command, completions, formats, and what Ctrl-C says."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from afgrl.cli.app import INTERRUPTED, ORDER
from afgrl.runs.invocation import pasteable
from tests.cli.test_commands import afgrl


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed command in a virtual environment below the working directory."""
    folder = tmp_path / "my project"
    file = folder / ".venv" / "bin" / "afgrl"
    file.parent.mkdir(parents=True)
    file.write_text('#!/bin/sh\necho called with "$@"\n')
    file.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(file), "fit"])
    return file


def output_of(line: str) -> str:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout


def test_the_next_command_works_without_an_activated_environment(program: Path) -> None:
    line = pasteable("evaluate", "runs/a b")
    assert line == ".venv/bin/afgrl evaluate 'runs/a b'"
    assert output_of(line) == "called with evaluate runs/a b\n"


def test_the_next_command_is_short_in_an_activated_environment(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert pasteable("search", "run", 0) == "afgrl search run 0"
    assert output_of(pasteable("search")) == "called with search\n"


def test_the_next_command_from_another_folder_has_the_whole_path(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert output_of(pasteable("search")) == "called with search\n"
    monkeypatch.chdir(program.parent)  # without a slash, a shell would search its path
    assert pasteable("search") == "./afgrl search"


def test_the_next_command_of_a_module_is_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run([sys.executable, "-m", "afgrl", "--version"], capture_output=True, text=True, check=True)
    monkeypatch.setattr(sys, "argv", [str(Path("src/afgrl/__main__.py").absolute())])
    words = shlex.split(pasteable("--version"))
    assert words[1:] == ["-m", "afgrl", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == done.stdout


def test_completion_lists_commands() -> None:
    environment = os.environ | {"_AFGRL_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    code = "from afgrl.cli.entry_point import app; app(prog_name='afgrl')"
    for typed, expected in (("afgrl ev", "evaluate"), ("afgrl cl", "cluster")):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment | {"COMP_WORDS": typed}
        )
        assert done.stdout.split() == [expected], done.stderr


@pytest.mark.parametrize("name", ["vectors.xlsx", "vectors.parqet"])
def test_vectors_are_not_written_in_a_format_that_the_name_does_not_say(tmp_path: Path, name: str) -> None:
    from tests.sample_runs import make_run

    run = make_run(tmp_path / "run", 12)
    answer = afgrl("embed", run.path, "--out", tmp_path / name)
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"Unknown format {name.split('.')[1]!r}; ")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / name).exists()
    assert afgrl("embed", run.path, "--out", tmp_path / name, "--format", "csv").exit_code == 0
    assert afgrl("embed", run.path, "--out", tmp_path / "vectors").exit_code == 0  # no ending: parquet


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


LONG = {
    "evaluate": ("afgrl.experiment.evaluation.evaluate_run", ("{run}", "--device", "cpu")),
    "cluster": ("afgrl.analysis.clustering.cluster_run", ("{run}",)),
    "report": ("afgrl.report.write_report", ("{run}",)),
    "embed": ("afgrl.analysis.new_nodes.embed_new_nodes", ("{run}", "--graph", "{run}", "--device", "cpu")),
    "add": ("afgrl.analysis.added_nodes.add_nodes", ("{run}", "{run}", "--device", "cpu")),
    "search": ("afgrl.analysis.neighbors.find_similar", ("{run}", "node-000")),
    "export": ("afgrl.onnx.export_encoder", ("{run}",)),
    "quality": ("afgrl.analysis.quality.panel.assess_run", ("{run}", "--device", "cpu")),
    "compare": ("afgrl.report.compare", ("{run}", "{run}", "--device", "cpu")),
    "bench": ("afgrl.bench.measure_speed", ("--device", "cpu")),
    "reproduce": ("afgrl.reproduce.pipeline.reproduce_results", ("table2", "--device", "cpu")),
    "demo": ("afgrl.experiment.training.fit", ("--device", "cpu")),
    "fit": ("afgrl.experiment.training.fit", ("demo", "--device", "cpu")),
}


@pytest.mark.parametrize("command", LONG)
def test_ctrl_c_says_what_is_saved(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.sample_runs import make_run

    run = make_run(tmp_path / "run", 12)
    before = {file.name: file.read_bytes() for file in run.path.iterdir()}
    work, words = LONG[command]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, interrupt)
    answer = afgrl(command, *(word.format(run=run.path) for word in words))
    assert (answer.exit_code, answer.stderr.splitlines()[-1]) == (130, f"Interrupted. {INTERRUPTED[command]}")
    assert {file.name: file.read_bytes() for file in run.path.iterdir()} == before


def test_every_long_command_has_its_own_sentence() -> None:
    """The others only read, or run until they are stopped."""
    assert INTERRUPTED.keys() == LONG.keys()
    assert set(ORDER) - INTERRUPTED.keys() == {"datasets", "check", "estimate", "remove", "explore", "doctor"}
