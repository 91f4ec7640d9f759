"""Commands where a package that only some of them need is not installed."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from afgrl import explore
from afgrl.cli.entry_point import app
from tests.data.small_files import write_wikics

WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from afgrl.cli.entry_point import main; main()"
NETWORK = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"></graph></graphml>'
FIT = ("fit", "mine", "--out", "run", "--report", "--quiet", "--set", "steps=2", "--device", "cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "nodes.csv").write_text("id,age\n" + "".join(f"n{i},{i % 7}\n" for i in range(30)))
    (tmp_path / "mine" / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(29)))
    return tmp_path


def without(package, *words):
    environment = os.environ | {"AFGRL_CACHE": "cache"}
    called = [sys.executable, "-c", WITHOUT, package, *words]
    return subprocess.run(called, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("matplotlib", ("reproduce", "table2", "--quick", "--datasets", "demo", "--methods", "raw")),
        ("networkx", ("check", "network.graphml")),
        ("torch_geometric", ("check", "wikics", "--data-dir", ".")),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_line_that_installs_it(package, words, folder):
    (folder / "network.graphml").write_text(NETWORK)
    write_wikics(folder)
    answer = without(package, *words)
    sentence = f"This needs {package}, which is not installed: pip install {package}.\n"
    assert (answer.returncode, answer.stderr) == (2, sentence)


@pytest.mark.parametrize("package", ["matplotlib", "networkx", "torch_geometric"])
def test_a_report_needs_none_of_them(package, folder):
    answer = without(package, *FIT)
    assert (answer.returncode, (folder / "run" / "report.html").is_file()) == (0, True), answer.stderr


def test_a_package_without_which_nothing_works_is_not_taken_for_bad_input():
    answer = without("pyarrow", "check", "mine")
    assert answer.returncode == 1
    assert "ModuleNotFoundError" in answer.stderr


@pytest.mark.parametrize(("missing", "following"), [(["fastapi"], "quality"), ([], "explore")])
def test_the_next_command_is_one_that_works_here(missing, following, monkeypatch):
    monkeypatch.setattr(explore, "missing_packages", lambda: missing)
    answer = CliRunner().invoke(app, list(FIT))
    assert f"Next: afgrl {following} run" in answer.stdout, answer.stderr
