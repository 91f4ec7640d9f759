"""How the answers of commands are written."""

import io
import itertools

import pytest
from rich.console import Console
from typer.testing import CliRunner

from afgrl.cli import tables, training
from afgrl.cli.entry_point import app


def printed(table):
    text = io.StringIO()
    Console(file=text, width=100).print(table)
    return " ".join(text.getvalue().split())


def test_numbers_of_the_users_tables_are_written_out():
    columns = {"population": 147685215.0, "founded": 1147, "share": 1e-7, "capital": True}
    neighbor = {"id": "moscow", "similarity": 0.5, "columns": columns}
    assert "moscow 0.5000 147,685,215 1147 0.0000001 yes" in printed(tables.neighbors("x", [neighbor]))


def test_a_number_is_never_cut():
    columns = {"count": 2**63 - 1, "word": "x" * 30}
    shown = printed(tables.neighbors("x", [{"id": "a", "similarity": 0.5, "columns": columns}]))
    assert "9,223,372,036,854,775,807" in shown
    assert "x" * 17 + "…" in shown


def test_what_is_true_is_yes():
    assert "works yes" in printed(tables.findings({"works": True}))
    assert "works no" in printed(tables.findings({"works": False}))


def test_one_node_has_no_plural():
    counts = {"name": "a", "nodes": 1, "edges": 0, "features": 2}
    device = {"device": "cpu", "memory_bytes": 40000, "free_bytes": 2**31, "fits": True, "step_seconds": 1e-3}
    device |= {"seconds": 2.0, "temporary_bytes": 0, "narrower": None, "faster": []}
    names = ("steps", "batch_size", "input", "skip", "n_components", "predictor_width", "n_hops")
    disk = {"run_bytes": 40000, "temporary_bytes": 0, "reading_memory_bytes": 0}
    counts["method"] = "node_embedder"
    answer = {
        **counts,
        "settings": dict.fromkeys(names, 1),
        "devices": [device],
        "disk": disk,
    }
    shown = printed(tables.forecast(answer)[0])
    assert "a: 1 node, 0 edges, 2 features" in shown
    assert "cpu 39.1 KiB 2 GiB yes 1 ms 2.0 s" in shown
    assert "takes about 39.1 KiB of disk" in shown


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_duration_is_negative_when_the_clock_goes_back(form, tmp_path, monkeypatch):
    clock = itertools.count(100, -1.9)
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(clock))
    words = ["fit", "demo", "--method", "raw", "--device", "cpu", "--quiet", "--out", str(tmp_path / "run")]
    answer = CliRunner().invoke(app, words + ["--json"] * (form == "json"))
    assert answer.exit_code == 0, answer.stderr
    assert ("(0 ms)" if form == "text" else '"seconds": 0.0') in answer.stdout
