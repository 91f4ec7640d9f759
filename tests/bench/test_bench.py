"""The command `afgrl bench`: its answer, and what it refuses to report."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from afgrl.bench import DATASETS, _load, default, run_bench, stages
from afgrl.bench.measure import implementation
from afgrl.cli.entry_point import app
from afgrl.config import resolve
from afgrl.errors import AfgrlError
from afgrl.methods import dgi
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.ops.dispatch import is_fast
from benchmarks.graphs import save_npz_graph
from tests.conftest import communities

QUICK = {"n_components": 32, "predictor_width": 32, "n_clusters": 10, "kmeans_iters": 2}
SETTINGS = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]


def afgrl(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def known_rates(monkeypatch):
    """Measuring the rate of matrix products takes seconds."""
    monkeypatch.setattr("afgrl.bench.matmul_rates", lambda device: {"train": 1e11, "search": 1e11})


def test_the_answer_is_json(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    file = tmp_path / "bench.json"
    answer = afgrl(
        "bench", "--datasets", "demo,cora", "--seconds", "0.05", "--device", "cpu", "--json", "--out", file, *SETTINGS
    )
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found == json.loads(file.read_text())
    assert {"device", "versions", "commit", "epochs", "stages"} <= found.keys()
    for row, name, origin in zip(found["epochs"], ["demo", "cora"], ["real", "synthetic"], strict=True):
        assert (row["dataset"], row["graph"]) == (name, origin)
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["fast_ms"])
        assert row["limit_ms"] > 0
        assert row["predicted_bytes"] > 0
    assert {row["stage"] for row in found["stages"]} == {"propagate", "encode", "k-NN", "k-means", "loss and step"}


def test_an_epoch_is_measured_from_search_to_search():
    """The default recipe searches positives at every fifth step, so an epoch costs the mean of the five."""
    found = run_bench(["demo"], torch.device("cpu"), recipe_name="default", seconds=0.05, settings=QUICK)
    assert found["recipe"] == "default"
    limits = {row["stage"]: row["limit_ms"] for row in found["stages"]}
    searching = limits["k-NN"] + limits["k-means"]
    assert found["epochs"][0]["limit_ms"] < limits["encode"] + limits["loss and step"] + searching / 2


def test_the_table_has_only_ratios_for_a_cpu():
    answer = afgrl("bench", "--datasets", "demo", "--seconds", "0.05", "--device", "cpu", *SETTINGS)
    assert answer.exit_code == 0
    assert "k-means" in answer.stdout
    assert " ms" not in answer.stdout


def test_every_method_that_trains_can_be_measured(tmp_path):
    file = tmp_path / "bench.json"
    small = ["--set", "n_components=8", "--set", "epochs=5"]
    options = ["--datasets", "demo", "--seconds", "0.02", "--device", "cpu", "--quiet", *small]
    answer = afgrl("bench", "--methods", "dgi, grace,supervised_gcn,raw", "--json", "--out", file, *options)
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found == json.loads(file.read_text())
    assert [row["method"] for row in found["methods"]] == ["dgi", "grace", "supervised_gcn"]  # raw does not train
    for row in found["methods"]:
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["fast_ms"])
        assert max(row["gradient"].values()) < 1e-3  # a CPU always uses float32
    table = afgrl("bench", "--methods", "dgi", *options).stdout
    assert "dgi" in table
    assert " ms" not in table
    assert afgrl("bench", "--methods", "dgy", *options).exit_code == 2


def test_a_method_whose_fast_path_disagrees_is_refused(monkeypatch):
    spmm = dgi.spmm
    monkeypatch.setattr(dgi, "spmm", lambda *arguments: spmm(*arguments) * (1.01 if is_fast() else 1))
    options = ("--datasets", "demo", "--seconds", "0.02", "--device", "cpu", "--json")
    answer = afgrl("bench", "--methods", "dgi,gmi", *options)
    assert answer.exit_code == 1
    assert "dgi disagree on demo" in answer.stderr
    assert [row["method"] for row in json.loads(answer.stdout)["methods"]] == ["gmi"]


def test_an_unknown_dataset_is_invalid_input():
    answer = afgrl("bench", "--datasets", "photos")
    assert answer.exit_code == 2
    assert "photo" in answer.stderr


def test_nothing_is_reported_if_the_losses_disagree(monkeypatch):
    plain = stages.positive_pair_loss
    monkeypatch.setattr(
        stages, "positive_pair_loss",
        lambda *arguments, **options: plain(*arguments, **options) * (1.01 if is_fast() else 1),
    )  # fmt: skip
    with pytest.raises(AfgrlError, match=r"disagree on demo: loss by 1\.0e-02"):
        run_bench(["demo"], torch.device("cpu"), seconds=0.05, settings=QUICK)


def test_one_wrong_neighbor_is_a_disagreement(monkeypatch):
    """No matter how many others are right."""
    plain = stages.candidate_pairs

    def wrong(*arguments):
        src, dst = plain(*arguments)
        if is_fast():
            dst[3] = (dst[0] + len(dst) // 8) % (len(dst) // 4)  # the last neighbor of the first node is arbitrary
        return src, dst

    monkeypatch.setattr(stages, "candidate_pairs", wrong)
    with pytest.raises(AfgrlError, match="disagree on demo: similarity by"):
        run_bench(["demo"], torch.device("cpu"), seconds=0.05, settings=QUICK)


def test_a_missing_output_folder_is_noticed_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("afgrl.bench.run_bench", None)
    answer = afgrl("bench", "--datasets", "demo", "--out", tmp_path / "none" / "bench.json")
    assert answer.exit_code == 2
    assert "none" in answer.stderr


def test_the_implementation_is_restored(monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", "auto")
    with implementation("reference"):
        assert not is_fast()
    assert is_fast()


def test_a_synthetic_graph_has_the_labels_and_splits_of_its_benchmark(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    dataset, origin = _load("cora", None)
    assert origin == "synthetic"
    assert (dataset.n_classes, len(dataset.splits)) == (7, 20)


def test_the_five_datasets_of_the_paper_are_measured_by_default():
    assert set(DATASETS) == {"photo", "computers", "wikics", "cs", "physics"}


def test_the_default_is_timed_beside_full_batches_and_dgi(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    source, file = tmp_path / "small.npz", tmp_path / "bench.json"
    graph = communities()  # so few nodes that the default takes few steps
    save_npz_graph(source, graph, np.arange(graph.n) % 3)
    answer = afgrl("bench", "--default", "--datasets", source, "--device", "cpu", "--out", file)
    assert answer.exit_code == 0, answer.stderr
    (row,) = json.loads(file.read_text())["default"]
    assert row["seconds"] == pytest.approx(row["preparation"] + row["training"] + row["embedding"])
    assert row["full_batch_ratio"] == pytest.approx(row["full_batch_seconds"] / row["seconds"])
    assert row["dgi_ratio"] == pytest.approx(row["dgi_seconds"] / row["seconds"])
    assert f"{row['full_batch_ratio']:.1f}" in answer.stdout
    assert f"{row['seconds']:.2f}" not in answer.stdout  # absolute times of a CPU mean little


def test_full_batches_are_extrapolated_to_all_epochs(monkeypatch):
    """Twice the refresh interval is measured; on a GPU, what happens once per run does not count."""
    asked, once = [], 0.0

    def seconds(method, graph, device, **settings):
        assert method == "afgrl"
        asked.append(settings["epochs"])
        return {"preparation": 3.0, "training": once + 0.5 * settings["epochs"], "embedding": 1.0}

    monkeypatch.setattr(default, "method_seconds", seconds)
    graph = _load("demo", None)[0].graph
    epochs = resolve(AFGRLSettings, graph=graph).epochs
    assert default._full_batch_seconds(graph, torch.device("cpu")) == pytest.approx(4 + 0.5 * epochs)
    once = 20.0
    assert default._full_batch_seconds(graph, torch.device("cuda")) == pytest.approx(4 + 0.5 * epochs)
    assert asked == [10, 10, 40, 120]


def test_features_too_large_to_be_dense_leave_dgi_out(monkeypatch):
    monkeypatch.setattr(default, "DGI_BYTES", 1000)
    parts = {"preparation": 0.5, "training": 1.0, "embedding": 0.5}
    monkeypatch.setattr(default, "method_seconds", lambda method, graph, device, **settings: parts)
    found = default.default_times(_load("demo", None)[0].graph, torch.device("cpu"))
    assert (found["dgi_seconds"], found["dgi_ratio"], found["seconds"]) == (None, None, 2.0)


@pytest.mark.parametrize("other", [["--methods", "dgi"], ["--set", "steps=3"]])
def test_the_default_takes_no_other_settings(other):
    answer = afgrl("bench", "--default", *other)
    assert answer.exit_code != 0
    assert "takes no --methods and no --set" in answer.stderr
