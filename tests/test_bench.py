import json
import time

import pytest
import torch

from afgrl.bench import DATASETS, bench
from afgrl.bench import subject as subjects
from afgrl.bench.measure import implementation, median_seconds
from afgrl.errors import AfgrlError
from afgrl.methods import dgi
from afgrl.ops import is_fast
from tests.test_cli import afgrl

QUICK = {"n_components": 32, "predictor_width": 32, "n_clusters": 10, "kmeans_iters": 2}
SETTINGS = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]


def test_a_machine_can_read_the_answer(tmp_path):
    file = tmp_path / "bench.json"
    answer = afgrl("bench", "--datasets", "demo,cora", "--seconds", "0.1", "--json", "--out", file, *SETTINGS)
    assert answer.exit_code == 0
    found = json.loads(answer.stdout)
    assert found == json.loads(file.read_text())
    assert {"device", "versions", "commit", "epochs", "stages"} <= found.keys()
    for row, name in zip(found["epochs"], ["demo", "cora"], strict=True):
        assert row["dataset"] == name
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["fast_ms"])
        assert row["limit_ms"] > 0
        assert row["predicted_bytes"] > 0
    assert {row["stage"] for row in found["stages"]} == {"propagate", "encode", "k-NN", "k-means", "loss and step"}


def test_an_epoch_is_measured_from_search_to_search():
    """With the default recipe positives are searched in every fifth epoch: an epoch costs the mean of the five."""
    answer = afgrl("bench", "--datasets", "demo", "--recipe", "default", "--seconds", "0.05", "--json", *SETTINGS)
    assert answer.exit_code == 0
    found = json.loads(answer.stdout)
    assert found["recipe"] == "default"
    stages = {row["stage"]: row["limit_ms"] for row in found["stages"]}
    searching = stages["k-NN"] + stages["k-means"]
    assert found["epochs"][0]["limit_ms"] < stages["encode"] + stages["loss and step"] + searching / 2


def test_people_get_a_table_with_ratios_alone_for_a_cpu():
    answer = afgrl("bench", "--datasets", "demo", "--seconds", "0.05", "--device", "cpu", *SETTINGS)
    assert answer.exit_code == 0
    assert "k-means" in answer.stdout
    assert " ms" not in answer.stdout


def test_every_method_is_measured(tmp_path):
    file = tmp_path / "bench.json"
    small = ["--set", "n_components=8", "--set", "epochs=5"]
    options = ["--datasets", "demo", "--seconds", "0.02", "--device", "cpu", "--quiet", *small]
    answer = afgrl("bench", "--methods", "dgi, grace,supervised_gcn,raw", "--json", "--out", file, *options)
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found == json.loads(file.read_text())
    assert [row["method"] for row in found["methods"]] == ["dgi", "grace", "supervised_gcn"]  # raw has no epoch
    for row in found["methods"]:
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["fast_ms"])
        assert max(row["gradient"].values()) < 1e-3  # a CPU takes float32 in either case
    table = afgrl("bench", "--methods", "dgi", *options).stdout
    assert "dgi" in table
    assert " ms" not in table  # times of a CPU are ratios only
    assert afgrl("bench", "--methods", "dgy", *options).exit_code == 2


def test_a_method_whose_paths_disagree_is_not_reported(monkeypatch):
    plain = dgi.gather
    monkeypatch.setattr(dgi, "gather", lambda *arguments: plain(*arguments) * (1.01 if is_fast() else 1))
    options = ("--datasets", "demo", "--seconds", "0.02", "--device", "cpu", "--json")
    answer = afgrl("bench", "--methods", "dgi,gmi", *options)
    assert answer.exit_code == 1
    assert "dgi disagree on demo" in answer.stderr
    assert [row["method"] for row in json.loads(answer.stdout)["methods"]] == ["gmi"]


def test_a_dataset_that_does_not_exist():
    answer = afgrl("bench", "--datasets", "photos")
    assert answer.exit_code == 2
    assert "photo" in answer.stderr


def test_nothing_is_reported_when_the_paths_disagree(monkeypatch):
    plain = subjects.pair_loss
    monkeypatch.setattr(
        subjects, "pair_loss", lambda *arguments, **options: plain(*arguments, **options) * (1.01 if is_fast() else 1)
    )
    with pytest.raises(AfgrlError, match=r"disagree on demo: loss by 1\.0e-02"):
        bench(["demo"], torch.device("cpu"), seconds=0.05, settings=QUICK)


def test_one_missed_neighbor_is_a_disagreement(monkeypatch):
    """However many others are found."""
    plain = subjects.nearest

    def wrong(*arguments):
        src, dst = plain(*arguments)
        if is_fast():
            dst[3] = (dst[0] + len(dst) // 8) % (len(dst) // 4)  # the first node's last is now anyone
        return src, dst

    monkeypatch.setattr(subjects, "nearest", wrong)
    with pytest.raises(AfgrlError, match="disagree on demo: similarity by"):
        bench(["demo"], torch.device("cpu"), seconds=0.05, settings=QUICK)


def test_a_folder_that_does_not_exist_is_noticed_before_the_work(tmp_path):
    answer = afgrl("bench", "--datasets", "demo", "--out", tmp_path / "none" / "bench.json")
    assert answer.exit_code == 2
    assert "There is no folder" in answer.stderr


def test_the_implementation_comes_back(monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", "auto")
    with implementation("reference"):
        assert not is_fast()
    assert is_fast()


def test_a_median_of_a_few_calls():
    calls = []
    assert 0.01 <= median_seconds(lambda: (calls.append(1), time.sleep(0.01)), torch.device("cpu"), 0.0) < 1
    assert len(calls) >= 3


def test_the_five_sets_of_the_paper_are_measured():
    assert set(DATASETS) == {"photo", "computers", "wikics", "cs", "physics"}
