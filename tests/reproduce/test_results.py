"""The whole path on a small scale: from the command to tables, pictures and the page."""

import csv
import io
import json
import os
import re
import shlex

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from afgrl.bench.planted import Planted, write_planted
from afgrl.cli.entry_point import app
from afgrl.errors import UserError
from afgrl.experiment.cache import RunCache
from afgrl.reproduce import figure_tsne
from afgrl.reproduce.pipeline import RESULTS, reproduce_results
from afgrl.reproduce.scope import Scope
from afgrl.runs.folder import Run

CPU = torch.device("cpu")
REAL_DATA = os.environ.get("AFGRL_DATA")
METHODS = ("raw", "supervised_gcn", "dgi", "gca", "bgrl", "afgrl", "cca_ssg")


def afgrl(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def labeled_folder(tmp_path):
    write_planted(Planted(300, 1500, features=8, classes=3, separation=2.0), tmp_path / "shops")
    return tmp_path / "shops"


@pytest.fixture(scope="module")
def all_results(tmp_path_factory):
    """The folder, the arguments and the output of a quick call."""
    out = tmp_path_factory.mktemp("reproduction")
    options = ["--quick", "--datasets", "demo", "--methods", ",".join(METHODS), "--out", out, "--device", "cpu"]
    answer = afgrl("reproduce", "all", *options, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    return out, options, answer.stdout


def test_every_table_and_figure_is_written(all_results):
    out, _, shown = all_results
    for name in RESULTS:
        assert "demo" in (out / f"{name}.md").read_text(), name
    for stem in ("ratio", "sensitivity-k", "sensitivity-M", "ablation", "dimension", "tsne"):
        assert (out / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{stem}.svg").read_text()
    for task in ("classification", "clustering", "similarity"):
        assert (out / f"best-epoch-{task}.png").is_file()
    tables = sorted(out.glob("*.csv"))
    assert len(tables) >= len(RESULTS)
    for file in tables:
        rows = list(csv.reader(io.StringIO(file.read_text())))
        assert len(rows) > 1, file.name
        assert len({len(row) for row in rows}) == 1
        assert r"\toprule" in file.with_suffix(".tex").read_text()
    assert "last-epoch" in shown
    assert "best-epoch" in shown


def test_help_names_every_result():
    shown = re.sub(r"\s+", "", afgrl("reproduce", "--help").stdout)
    assert all(name in shown for name in RESULTS)


def test_methods_since_the_paper_are_compared_on_the_users_graphs(labeled_folder, tmp_path, monkeypatch):
    options = ["--quick", "--datasets", labeled_folder, "--methods", "cca_ssg", "--out", tmp_path, "--device", "cpu"]
    answer = afgrl("reproduce", "since", *options, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    heading, first, *_ = csv.reader(io.StringIO((tmp_path / "since-1.csv").read_text()))
    assert heading == ["method", labeled_folder.name, "mean rank"]
    assert first[0] == "cca_ssg"
    assert 0 < float(first[1]) <= 100
    later = list(csv.reader(io.StringIO((tmp_path / "since-4.csv").read_text())))
    assert later[0] == ["method", labeled_folder.name]
    assert [row[0] for row in later[1:]] == ["cca_ssg, default"]
    assert 0 < float(later[1][1]) <= 100
    monkeypatch.setattr("afgrl.experiment.cache.fit", None)
    next(tmp_path.glob("runs/*/new-nodes.json")).write_text("{")  # damaged, so it is measured again
    assert afgrl("reproduce", "since", *options, "--quiet").exit_code == 0
    assert list(csv.reader(io.StringIO((tmp_path / "since-4.csv").read_text()))) == later
    monkeypatch.setattr("afgrl.experiment.cache.new_node_accuracy", None)
    assert afgrl("reproduce", "since", *options, "--quiet").exit_code == 0  # everything is cached
    assert list(csv.reader(io.StringIO((tmp_path / "since-4.csv").read_text()))) == later


def test_a_graph_without_labels_is_refused(labeled_folder, tmp_path):
    (labeled_folder / "labels.npy").unlink()
    answer = afgrl("reproduce", "since", "--datasets", labeled_folder, "--out", tmp_path / "out", "--device", "cpu")
    assert answer.exit_code == 2
    assert "has no labels, so vectors of it cannot be scored" in " ".join(answer.stderr.split())


def test_the_page_is_self_contained(all_results):
    out, _, _ = all_results
    text = (out / "reproduction.html").read_text()
    assert all(f'<section id="{name}">' in text for name in RESULTS)
    assert not re.search(r"""(src|href)=["'](?!#)""", re.sub(r"xlink:href=\"#[^\"]*\"", "", text))
    assert "afgrl fit demo --method bgrl --recipe paper --splits random --evaluate-every 6 --set" in text
    assert "&quot;n_components&quot;: 32" in text


def test_a_second_call_trains_nothing(all_results, monkeypatch):
    out, options, _ = all_results
    before = {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")}
    assert len(before) > 100
    monkeypatch.setattr("afgrl.experiment.cache.fit", None)
    for name in ("claims", "table1"):  # they use all runs
        answer = afgrl("reproduce", name, *options, "--json")
        assert answer.exit_code == 0, answer.stderr
        assert json.loads(answer.stdout)["results"] == {name: 1}
    assert {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")} == before


def test_the_command_of_a_run_gives_the_same_bits(all_results, tmp_path):
    """`reproduce` and `fit` are one engine."""
    out, _, _ = all_results
    scope = Scope(("demo",), METHODS, quick=True)
    for spec in figure_tsne.specs(scope):  # the runs whose embeddings are kept
        command = shlex.split(spec.command())
        assert command[:2] == ["afgrl", "fit"]
        answer = afgrl(*command[1:], "--out", tmp_path / spec.method, "--device", "cpu", "--quiet")
        assert answer.exit_code == 0, answer.stderr
        vectors = RunCache(out / "runs").embedding(spec)
        assert vectors.shape == (1797, 32)
        assert np.array_equal(vectors, Run.open(tmp_path / spec.method).embedding()[1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table9"], "Unknown result 'table9'; did you mean 'table"),
        (["table2", "--methods", "bgrll"], "Unknown method 'bgrll'; did you mean 'bgrl'?"),
        (["table2", "--datasets", "foto"], "Unknown dataset 'foto'; did you mean 'photo'?"),
        (["table2", "--seeds", "0"], "at least one seed"),
        (["table1", "--grid-seeds", "0"], "at least one seed"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, sentence, tmp_path):
    answer = afgrl("reproduce", *arguments, "--out", tmp_path / "out")
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert not (tmp_path / "out").exists()


def test_at_least_one_worker_is_needed(tmp_path):
    with pytest.raises(UserError, match="at least one"):
        reproduce_results("datasets", tmp_path, CPU, workers=0)


def test_datasets_that_are_not_available_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    found = reproduce_results("table2", tmp_path / "out", CPU, datasets=["wikics", "photo"])["table2"]
    assert list(found.tables) == []
    assert found.notes[0] == "Not available: wikics, photo."


def test_cached_only_trains_nothing_and_counts_the_missing_runs(all_results, monkeypatch):
    out, _, _ = all_results
    monkeypatch.setattr("afgrl.experiment.cache.fit", None)
    options = {"datasets": ["demo"], "quick": True, "cached_only": True}
    found = reproduce_results("table2", out, CPU, methods=["raw", "hops"], **options)["table2"]
    assert [row[0] for row in found.tables[0].rows] == ["raw"]
    assert found.notes[-1] == "1 of 2 runs are missing; what needs them is left out."


@pytest.mark.real_data
@pytest.mark.skipif(not REAL_DATA, reason="AFGRL_DATA is not set")
def test_sparse_features_of_a_real_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    options = {"datasets": ["cora"], "methods": ["raw", "hops", "afgrl", "node_embedder"], "quick": True}
    (table,) = reproduce_results("table2", tmp_path / "out", CPU, **options)["table2"].tables
    accuracies = {row[0]: row[2] for row in table.rows}
    assert accuracies.keys() == {"raw", "hops", "afgrl", "node_embedder"}
    assert 10 < accuracies["raw"] < accuracies["hops"] < 95
