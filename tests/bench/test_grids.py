"""The grids of benchmarks/ and the tables of results/ that come from them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from afgrl.data import load
from afgrl.reproduce.result import PROTOCOLS
from afgrl.runs.spec import EvaluationPlan, RunSpec
from benchmarks import RESULTS, grids, speed
from benchmarks.graphs import save_npz_graph
from benchmarks.grid_table import markdown
from tests.conftest import communities, weighted

CPU = torch.device("cpu")


def test_a_grid_becomes_a_table(tmp_path):
    spec = RunSpec("demo", "random", settings={"n_components": 8}, evaluation=EvaluationPlan(1, 2, 1, 1))
    rows = [
        grids.Row(("published",), published=(90.0, 0.5, 0.75)),
        grids.Row(("random encoder",), grids.over_seeds(spec, (0, 1))),
        grids.Row(("raw features",), (RunSpec("demo", "raw", evaluation=EvaluationPlan(0, 2, 1, 1)),), "reference"),
    ]
    grid = grids.Grid("Title", "A note.", ("vectors",), lambda data_dir, folder: rows, PROTOCOLS)
    answer = json.loads(json.dumps(grids.run("small", grid, tmp_path, None, CPU)))
    assert [len(row["runs"]) for row in answer["rows"]] == [0, 2, 1]
    text = markdown(answer)
    (published,) = [line for line in text.splitlines() if line.startswith("| published")]
    assert published == "| published | – | – | – | 90.00 | 0.5000 | 0.7500 | – |"
    means = [run["last-epoch"]["classification"]["accuracy"]["mean"] for run in answer["rows"][1]["runs"]]
    assert f"| random encoder | {np.mean(means):.2f} ± {np.std(means):.2f} |" in text
    (raw,) = [line for line in text.splitlines() if line.startswith("| raw")]
    assert raw.endswith("| – | – | – | 1 |")  # no periodic evaluations, so no best epoch
    assert {folder.name for folder in tmp_path.iterdir()} == {"auto", "reference", "graphs"}


def test_a_graph_survives_its_file(tmp_path):
    graph = weighted(communities(n_isolated=0))
    save_npz_graph(tmp_path / "graph.npz", graph, np.arange(graph.n) % 3)
    read = load(tmp_path / "graph.npz")
    assert read.graph.fingerprint == graph.fingerprint
    assert torch.equal(read.graph.x, graph.x)
    assert (read.y == np.arange(graph.n) % 3).all()


def test_noise_doubles_the_edges_and_weighs_a_tenth():
    graph = communities(n_groups=8, size=40)
    noisy = grids.with_noise(graph, seed=0)
    assert graph.n_edges < noisy.n_edges <= 2 * graph.n_edges
    low, high = noisy.edge_weight.min(), noisy.edge_weight.median()
    assert low / high == pytest.approx(0.1)
    assert replace(noisy, edge_weight=None).n_edges == noisy.n_edges


@pytest.mark.parametrize("name", list(grids.GRIDS))
def test_the_stored_table_is_that_of_the_stored_values(name):
    answer = json.loads((RESULTS / f"{name}.json").read_text())
    assert (RESULTS / f"{name}.md").read_text() == markdown(answer)
    assert answer["note"] == grids.GRIDS[name].note


def test_the_stored_speed_tables_are_those_of_the_stored_values():
    assert (RESULTS / "speed.md").read_text() == speed.epochs_and_stages()
    assert (RESULTS / "methods-speed.md").read_text() == speed.methods_speed()


def test_results_are_json_markdown_and_pictures_that_are_described():
    listed = (RESULTS / "README.md").read_text()
    for file in (file for file in RESULTS.rglob("*") if file.is_file() and file.name != "README.md"):
        assert file.suffix in (".json", ".md", ".png"), file
        described = file.name if file.parent == RESULTS else f"reproduction/*{file.suffix}"
        assert described in listed or file.name in listed or file.stem.startswith("bench-methods"), file


def test_stored_results_use_the_names_of_the_protocols():
    for file in Path(RESULTS).rglob("*.json"):
        text = file.read_text()
        assert "label-free" not in text, file
        assert '"paper": {' not in text, file
