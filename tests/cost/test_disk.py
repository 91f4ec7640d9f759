"""What reading and a run need on disk: stated before, and refused with one sentence if it is not there."""

import json
from contextlib import ExitStack
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from afgrl import UserError, load
from afgrl.cli.entry_point import app
from afgrl.config import resolve
from afgrl.cost import disk
from afgrl.cost.disk import check_reading, reading_needs
from afgrl.data import files
from afgrl.experiment.reading import begin_run
from afgrl.methods.node_embedder import NodeEmbedderMethod
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.runs.spec import RunSpec
from afgrl.train.distributed import Processes

SHORT = ["--set", "steps=2", "--set", "refresh_every=2", "--set", "n_components=64", "--device", "cpu", "--quiet"]


@pytest.fixture
def tables(tmp_path):
    random = np.random.default_rng(0)
    folder = tmp_path / "tables"
    folder.mkdir()
    numbers = {f"x{i}": random.standard_normal(300).round(3) for i in range(20)}
    pyarrow.csv.write_csv(pa.table({"id": np.arange(300)} | numbers), folder / "nodes.csv")
    source, target = random.integers(0, 300, (2, 2000))
    pq.write_table(pa.table({"source": source, "target": target}), folder / "edges.parquet")
    return folder


def test_small_tables_need_nothing(tables):
    assert reading_needs(tables) is None
    assert reading_needs("cora") is None
    assert reading_needs(tables / "missing") is None


def test_the_needs_of_large_tables_follow_from_their_sizes(tables, monkeypatch):
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    needs = reading_needs(tables)
    size = files.large_table_bytes(tables / "nodes.csv", tables / "edges.parquet")
    assert size > (tables / "nodes.csv").stat().st_size
    assert needs.disk_bytes == disk.TEMPORARY * size
    rows = needs.memory_bytes / disk.ROW_MEMORY
    assert rows == pytest.approx(2300, rel=0.01)  # the header counts as a row
    monkeypatch.setattr(disk, "ROW_MEMORY", 0)
    assert reading_needs(tables).memory_bytes == pytest.approx(size + disk.HELD * rows)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("free_memory", "iB of memory, and 1 KiB are free; use"), ("free_disk", "AFGRL_CACHE .* fewer columns")],
)
def test_reading_is_refused_without_memory_or_disk(tables, monkeypatch, tmp_path, name, sentence):
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    monkeypatch.setattr(disk, name, lambda _: 1000)
    with pytest.raises(UserError, match=sentence):
        check_reading(tables)
    monkeypatch.setattr("afgrl.runs.spec.RunSpec.load", None)  # nothing is read
    answer = CliRunner().invoke(app, ["fit", str(tables), "--out", str(tmp_path / "run"), *SHORT])
    assert answer.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_a_run_that_does_not_fit_the_disk_is_refused_with_the_setting_that_would(tables, monkeypatch, tmp_path):
    out = tmp_path / "run"
    wide = [*SHORT, "--set", "n_components=256", "--set", "skip=svd"]
    dataset, given = load(str(tables)), {"steps": 2, "refresh_every": 2, "n_components": 256, "skip": "svd"}
    settings = resolve(NodeEmbedderSettings, given, graph=dataset.graph)
    needed = disk.most_run_disk(NodeEmbedderMethod, settings.model_copy(update={"n_components": 128}), dataset)
    monkeypatch.setattr(disk, "free_disk", lambda _: needed)
    answer = CliRunner().invoke(app, ["fit", str(tables), "--out", str(out), *wide])
    assert answer.exit_code == 2
    assert "--set n_components=128 would fit" in answer.stderr
    monkeypatch.setattr(disk, "free_disk", lambda _: 1000)
    assert "larger disk with --out" in CliRunner().invoke(app, ["fit", str(tables), "--out", str(out), *wide]).stderr
    assert not out.exists()


def test_features_that_several_processes_share_are_counted(tables, monkeypatch):
    """Too large for the run's copy, they are in its features.safetensors unless the source has them as an array."""
    dataset = load(str(tables))
    settings = resolve(NodeEmbedderSettings, {"steps": 2}, graph=dataset.graph)
    size = dataset.graph.x.numel() * 4
    inside = disk.most_run_disk(NodeEmbedderMethod, settings, dataset)
    monkeypatch.setattr(disk, "MAX_FEATURE_BYTES", size - 1)
    assert disk.most_run_disk(NodeEmbedderMethod, settings, dataset) == inside - size
    assert disk.most_run_disk(NodeEmbedderMethod, settings, dataset, all_features=True) == inside


@pytest.mark.parametrize(("n_processes", "refused"), [(1, False), (2, True)])
def test_a_disk_too_small_for_shared_features_is_refused(tables, tmp_path, monkeypatch, n_processes, refused):
    dataset, spec = load(str(tables)), RunSpec(str(tables), settings={"steps": 2, "batch_size": 64})
    needed = disk.most_run_disk(NodeEmbedderMethod, spec.resolved(dataset)[1], dataset)
    monkeypatch.setattr(disk, "MAX_FEATURE_BYTES", 0)
    monkeypatch.setattr(disk, "free_disk", lambda _: needed - 1)
    processes = Processes(0, n_processes, torch.device("cpu"), distributed=n_processes > 1)
    options = {"held": ExitStack(), "force": False, "with_features": False, "message": lambda sentence: None}
    begin = partial(begin_run, spec, tmp_path / "run", processes, **options)
    if refused:
        with pytest.raises(UserError, match="iB on the disk of"):
            begin()
    else:
        begin()


def test_the_size_of_a_run_is_stated_before(tables, tmp_path, monkeypatch):
    answer = CliRunner().invoke(app, ["estimate", str(tables), "--json", *SHORT[:6]])
    stated = json.loads(answer.stdout)["disk"]
    assert stated["temporary_bytes"] == stated["reading_memory_bytes"] == 0
    assert CliRunner().invoke(app, ["fit", str(tables), "--out", str(tmp_path / "run"), *SHORT]).exit_code == 0
    found = sum(file.stat().st_size for file in (tmp_path / "run").iterdir())
    assert found / 1.5 < stated["run_bytes"] < 1.5 * found
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    shown = CliRunner().invoke(app, ["estimate", str(tables), *SHORT[:6]])
    assert "of temporary disk" in " ".join(shown.stdout.split())
