"""From two tables to vectors, clusters and new nodes, by the command line."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from afgrl.runs import Run
from afgrl.vectors import read_parquet
from tests.test_cli import afgrl

SMALL = ("--set", "epochs=4", "--set", "n_components=8", "--set", "n_clusters=4", "--quiet", "--device", "cpu")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    place = tmp_path / "people"
    place.mkdir()
    rows = [f"p{i},{rng.normal():.3f},{'red' if i % 2 else 'blue'},{'xy'[i % 2]}" for i in range(40)]
    (place / "nodes.csv").write_text("id,age,color,label\n" + "\n".join(rows) + "\n")
    ends = [f"p{i},p{(i + 2) % 40}" for i in range(40)]
    (place / "edges.csv").write_text("source,target\n" + "\n".join(ends) + "\n")
    return place


@pytest.fixture
def run(folder, tmp_path):
    answer = afgrl("fit", str(folder), "--out", str(tmp_path / "run"), *SMALL)
    assert answer.exit_code == 0, answer.output
    return Run.open(tmp_path / "run")


def test_a_run_keeps_what_is_known_of_its_nodes(run):
    ids, vectors = run.embedding()
    assert ids.tolist() == [f"p{i}" for i in range(40)]
    assert vectors.shape == (40, 8)
    assert run.nodes().column_names == ["id", "age", "color", "label"]
    assert run.data()["label"] == "label"
    assert [part["kind"] for part in run.preprocessing()] == ["number", "category"]
    last = run.lines("history.jsonl")[-1]
    assert 0 <= last["spread"] <= 1
    assert 1 <= last["rank"] <= 8
    assert 0 <= last["drift"] <= 2


def test_its_own_graph_embedded_again_gives_the_same_vectors(run, tmp_path):
    file = tmp_path / "again.parquet"
    assert afgrl("embed", str(run.path), "--out", str(file), "--device", "cpu").exit_code == 0
    np.testing.assert_array_equal(read_parquet(file)[1], run.embedding()[1])


def test_labels_of_some_nodes_are_enough_to_evaluate(folder, tmp_path):
    text = (folder / "nodes.csv").read_text().split("\n")
    text[1:11] = [line[:-1] for line in text[1:11]]
    (folder / "nodes.csv").write_text("\n".join(text))
    out = str(tmp_path / "run")
    assert afgrl("fit", str(folder), "--out", out, "--evaluate-every", "5", *SMALL).exit_code == 0
    scores = json.loads(afgrl("evaluate", out, "--json", "--device", "cpu").stdout)
    assert 0 <= scores["label-free"]["classification"]["accuracy"]["mean"] <= 100
    assert 0 <= scores["paper"]["classification"]["accuracy"]["mean"] <= 100
    learned = afgrl("fit", str(folder), "--out", str(tmp_path / "gcn"), "--method", "supervised_gcn", "--device", "cpu",
                    "--set", "epochs=3", "--quiet")  # fmt: skip
    assert learned.exit_code == 0, learned.stderr


def test_new_nodes_are_embedded_beside_those_they_are_linked_to(run, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    # A twin of p0: the same columns and the same neighbors.
    row = run.nodes().to_pylist()[0]
    (new / "nodes.csv").write_text(f"id,age,color\ntwin,{row['age']},{row['color']}\n")
    (new / "edges.csv").write_text("source,target\ntwin,p2\ntwin,p38\n")
    answer = afgrl("embed", str(run.path), "--graph", str(new), "--json", "--device", "cpu")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    ids, vectors = read_parquet(found["file"])
    assert ids.tolist() == ["twin"]
    unit = run.embedding()[1]
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    assert unit[0] @ vectors[0] / np.linalg.norm(vectors[0]) > 0.95  # p2 and p38 have one neighbor more than before


def test_points_that_join_a_graph_of_nearest_nodes(tmp_path):
    rng = np.random.default_rng(1)
    rows = [f"p{i},{a:.3f},{b:.3f}" for i, (a, b) in enumerate(rng.normal(size=(50, 2)))]
    (tmp_path / "points.csv").write_text("id,a,b\n" + "\n".join(rows) + "\n")
    out = str(tmp_path / "run")
    answer = afgrl("fit", str(tmp_path / "points.csv"), "--knn-graph", "5", "--out", out, *SMALL)
    assert answer.exit_code == 0, answer.output
    (tmp_path / "more.csv").write_text("id,a,b\n" + rows[0].replace("p0", "again") + "\n")
    found = afgrl("embed", out, "--graph", str(tmp_path / "more.csv"), "--json", "--device", "cpu")
    assert found.exit_code == 0, found.output
    ids, vectors = read_parquet(json.loads(found.stdout)["file"])
    assert ids.tolist() == ["again"]
    assert np.isfinite(vectors).all()


def test_a_graph_without_features_takes_new_nodes_too(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % 30}\n" for i in range(30)))
    out = str(tmp_path / "run")
    assert afgrl("fit", str(tmp_path / "edges.csv"), "--out", out, *SMALL).exit_code == 0
    (tmp_path / "more.csv").write_text("source,target\nnew,n1\nnew,n2\n")
    found = afgrl("embed", out, "--graph", str(tmp_path / "more.csv"), "--json", "--device", "cpu")
    assert found.exit_code == 0, found.output
    assert read_parquet(json.loads(found.stdout)["file"])[0].tolist() == ["new"]


def test_what_was_told_about_files_is_kept(folder, tmp_path):
    out = tmp_path / "run"
    told = ("--label", "color", "--column", "label=ignore")
    assert afgrl("fit", str(folder), "--out", str(out), *told, *SMALL).exit_code == 0
    assert Run.open(out).data()["label"] == "color"
    assert afgrl("evaluate", str(out), "--device", "cpu").exit_code == 0


def test_guesses_are_shown_and_bad_input_leaves_no_folder(folder, tmp_path):
    loud = [word for word in SMALL if word != "--quiet"]
    said = afgrl("fit", str(folder), "--out", str(tmp_path / "a"), *loud).stderr
    assert "'id' of nodes.csv names the nodes." in said
    (folder / "edges.csv").write_text("source,target\nx,y\n")
    answer = afgrl("fit", str(folder), "--out", str(tmp_path / "b"), *SMALL)
    assert answer.exit_code == 2
    assert "None of the ids" in answer.stderr
    assert not (tmp_path / "b").exists()


def test_check_and_estimate(folder):
    answer = json.loads(afgrl("check", str(folder), "--json").stdout)
    assert (answer["nodes"], answer["edges"], answer["classes"]) == (40, 40, 2)
    assert "names the nodes" in afgrl("check", str(folder)).stdout
    found = json.loads(afgrl("estimate", str(folder), "--json").stdout)
    assert found["devices"][0]["fits"] is True
    assert found["devices"][0]["seconds"] > 0
    assert "cpu" in afgrl("estimate", str(folder)).stdout


def test_memory_that_will_not_do_is_told_before(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("afgrl.forecast.free_memory", lambda kind: 30 << 20)
    loud = [word for word in SMALL if word != "--quiet"]
    said = afgrl("fit", str(folder), "--out", str(tmp_path / "a"), *loud, "--set", "n_components=4096").stderr
    assert "may need" in " ".join(said.split())
    assert "would fit" in " ".join(said.split())


def test_files_are_parquet_under_the_users_ids(run):
    table = pq.read_table(run.path / "embeddings.parquet")
    assert table["id"].to_pylist()[:2] == ["p0", "p1"]


def test_clusters_say_what_is_typical(run):
    answer = json.loads(afgrl("cluster", str(run.path), "-k", "2", "--json").stdout)
    assert [row["size"] for row in answer["clusters"]] == sorted(
        (row["size"] for row in answer["clusters"]), reverse=True
    )
    assert {item["name"] for row in answer["clusters"] for item in row["features"]} <= {
        "age",
        "color=red",
        "color=blue",
    }
    assert "most central" in afgrl("cluster", str(run.path)).stdout
    assert afgrl("cluster", str(run.path), "-k", "many").exit_code == 2


def test_a_source_that_moved_or_changed_is_said_to_have(run, folder):
    with (folder / "nodes.csv").open("a") as file:
        file.write("p40,1.0,red,x\n")
    told = f"'{folder}' no longer has the nodes that '{run.path}' was trained on."
    answer = afgrl("cluster", str(run.path), "-k", "2", "--json")
    assert answer.exit_code == 0
    assert "The clusters are not described by their features" in answer.stderr
    assert told in " ".join(answer.stderr.split())
    assert [row["features"] for row in json.loads(answer.stdout)["clusters"]] == [[], []]
    answer = afgrl("evaluate", str(run.path), "--device", "cpu")
    assert answer.exit_code == 2
    assert told in " ".join(answer.stderr.split())


def test_a_run_is_reported_exported_and_written_in_other_formats(run, tmp_path):
    page = tmp_path / "page.html"
    assert afgrl("report", str(run.path), "--out", str(page), "--quiet").exit_code == 0
    assert page.read_text().startswith("<!doctype html>") or page.read_text().startswith("<!DOCTYPE html>")
    assert afgrl("report", str(run.path), "--out", str(page)).exit_code == 2  # it is there already
    assert json.loads(afgrl("export", str(run.path), "--json").stdout)["method"] == "afgrl"
    table = tmp_path / "vectors.csv"
    assert afgrl("embed", str(run.path), "--format", "csv", "--out", str(table), "--device", "cpu").exit_code == 0
    assert table.read_text().splitlines()[1].startswith('"p0"')
    assert afgrl("embed", str(run.path), "--format", "xml").exit_code == 2
    found = json.loads(afgrl("search", str(run.path), "p3", "-k", "4", "--index", "--json").stdout)
    assert len(found["p3"]) == 4
