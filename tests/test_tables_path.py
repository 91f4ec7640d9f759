"""From two tables to embeddings, clusters and new nodes, with the command line."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from afgrl.runs.embeddings import read_parquet
from afgrl.runs.folder import Run
from tests.cli.test_commands import afgrl

SMALL = ("--set", "steps=4", "--set", "n_components=8", "--set", "n_clusters=4", "--quiet", "--device", "cpu")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    people = tmp_path / "people"
    people.mkdir()
    rows = [f"p{i},{rng.normal():.3f},{'red' if i % 2 else 'blue'},{'xy'[i % 2]}" for i in range(40)]
    (people / "nodes.csv").write_text("id,age,color,label\n" + "\n".join(rows) + "\n")
    ends = [f"p{i},p{(i + 2) % 40}" for i in range(40)]
    (people / "edges.csv").write_text("source,target\n" + "\n".join(ends) + "\n")
    return people


@pytest.fixture
def run(folder, tmp_path):
    answer = afgrl("fit", str(folder), "--out", str(tmp_path / "run"), *SMALL)
    assert answer.exit_code == 0, answer.output
    return Run.open(tmp_path / "run")


def test_a_run_stores_the_columns_and_their_encoding(run):
    ids, vectors = run.embedding()
    assert ids.tolist() == [f"p{i}" for i in range(40)]
    assert vectors.shape == (40, 8)
    assert run.nodes().column_names == ["id", "age", "color", "label"]
    assert run.data()["label"] == "label"
    assert [part.kind for part in run.dataset().graph.table_encoder.parts] == ["number", "category"]
    last = run.lines("history.jsonl")[-1]
    assert 0 <= last["spread"] <= 1
    assert 1 <= last["rank"] <= 8
    assert 0 <= last["drift"] <= 2


def test_one_command_leads_from_tables_to_a_report(folder, tmp_path):
    out = tmp_path / "run"
    answer = afgrl("fit", str(folder), "--out", str(out), "--report", "--json", *SMALL)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["report"] == str(out / "report.html")
    assert (out / "report.html").stat().st_size > 100_000
    assert Run.open(out).clusters() is not None


def test_the_training_graph_embedded_as_a_new_graph_gives_the_same_vectors(run, folder, tmp_path):
    file = tmp_path / "again.parquet"
    answer = afgrl("embed", str(run.path), "--graph", str(folder), "--out", str(file), "--device", "cpu")
    assert answer.exit_code == 0, answer.output
    ids, vectors = read_parquet(file)
    assert ids.tolist() == run.embedding()[0].tolist()
    np.testing.assert_allclose(vectors, run.embedding()[1], atol=1e-6)


def test_labels_of_some_nodes_are_enough_to_evaluate(folder, tmp_path):
    text = (folder / "nodes.csv").read_text().split("\n")
    text[1:11] = [line[:-1] for line in text[1:11]]
    (folder / "nodes.csv").write_text("\n".join(text))
    out = str(tmp_path / "run")
    assert afgrl("fit", str(folder), "--out", out, "--evaluate-every", "5", *SMALL).exit_code == 0
    scores = json.loads(afgrl("evaluate", out, "--json", "--device", "cpu").stdout)
    assert 0 <= scores["last-epoch"]["classification"]["accuracy"]["mean"] <= 100
    assert 0 <= scores["best-epoch"]["classification"]["accuracy"]["mean"] <= 100
    learned = afgrl("fit", str(folder), "--out", str(tmp_path / "gcn"), "--method", "supervised_gcn", "--device", "cpu",
                    "--set", "epochs=3", "--quiet")  # fmt: skip
    assert learned.exit_code == 0, learned.stderr


def test_new_nodes_are_embedded_together_with_their_neighbors(run, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    # The same columns and neighbors as p0.
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
    assert unit[0] @ vectors[0] / np.linalg.norm(vectors[0]) > 0.95  # p2 and p38 now have one more neighbor


def test_new_points_join_a_nearest_neighbor_graph(tmp_path):
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


def test_new_nodes_join_a_graph_without_features(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % 30}\n" for i in range(30)))
    out = str(tmp_path / "run")
    assert afgrl("fit", str(tmp_path / "edges.csv"), "--out", out, *SMALL).exit_code == 0
    (tmp_path / "more.csv").write_text("source,target\nnew,n1\nnew,n2\n")
    found = afgrl("embed", out, "--graph", str(tmp_path / "more.csv"), "--json", "--device", "cpu")
    assert found.exit_code == 0, found.output
    assert read_parquet(json.loads(found.stdout)["file"])[0].tolist() == ["new"]


def test_a_run_stores_how_its_files_were_read(folder, tmp_path):
    out = tmp_path / "run"
    options = ("--label", "color", "--column", "label=ignore")
    assert afgrl("fit", str(folder), "--out", str(out), *options, *SMALL).exit_code == 0
    assert Run.open(out).data()["label"] == "color"
    assert afgrl("evaluate", str(out), "--device", "cpu").exit_code == 0


def test_inferred_columns_are_shown_and_invalid_input_leaves_no_folder(folder, tmp_path):
    with_messages = [word for word in SMALL if word != "--quiet"]
    shown = afgrl("fit", str(folder), "--out", str(tmp_path / "a"), *with_messages).stderr
    assert "Node ids: column 'id' of nodes.csv." in shown
    (folder / "edges.csv").write_text("source,target\nx,y\n")
    answer = afgrl("fit", str(folder), "--out", str(tmp_path / "b"), *SMALL)
    assert answer.exit_code == 2
    assert "None of the ids" in answer.stderr
    assert not (tmp_path / "b").exists()


def test_check_and_estimate(folder):
    answer = json.loads(afgrl("check", str(folder), "--json").stdout)
    assert (answer["nodes"], answer["edges"], answer["classes"]) == (40, 40, 2)
    assert {"level": "info", "text": "Node ids: column 'id' of nodes.csv."} in answer["messages"]
    assert "Node ids: column 'id' of nodes.csv." in afgrl("check", str(folder)).stdout
    found = json.loads(afgrl("estimate", str(folder), "--json").stdout)
    assert found["devices"][0]["fits"] is True
    assert found["devices"][0]["seconds"] > 0
    assert "cpu" in afgrl("estimate", str(folder)).stdout


def test_too_little_memory_is_reported_before_training(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("afgrl.cost.forecast.free_memory", lambda kind: 260 << 20)
    with_messages = [word for word in SMALL if word != "--quiet"]
    answer = afgrl("fit", str(folder), "--out", str(tmp_path / "a"), *with_messages, "--set", "n_components=1024")
    shown = " ".join(answer.stderr.split())
    assert "may need" in shown
    assert "would fit" in shown


def test_embeddings_are_stored_with_the_ids_of_the_user(run):
    table = pq.read_table(run.path / "embeddings.parquet")
    assert table["id"].to_pylist()[:2] == ["p0", "p1"]


def test_clusters_are_described_by_their_features(run):
    answer = json.loads(afgrl("cluster", str(run.path), "-k", "2", "--json").stdout)
    assert [row["size"] for row in answer["clusters"]] == sorted(
        (row["size"] for row in answer["clusters"]), reverse=True
    )
    assert {item["name"] for row in answer["clusters"] for item in row["features"]} <= {
        "age",
        "color: red",
        "color: blue",
        "label: x",
        "label: y",
    }
    assert "most central" in afgrl("cluster", str(run.path)).stdout
    assert afgrl("cluster", str(run.path), "-k", "many").exit_code == 2


def test_a_run_does_not_depend_on_changes_of_its_source(run, folder):
    before = json.loads(afgrl("cluster", str(run.path), "-k", "2", "--json").stdout)
    with (folder / "nodes.csv").open("a") as file:
        file.write("p40,1.0,red,x\n")
    after = json.loads(afgrl("cluster", str(run.path), "-k", "2", "--json").stdout)
    assert after == before
    assert all(row["features"] for row in after["clusters"])
    assert afgrl("evaluate", str(run.path), "--device", "cpu").exit_code == 0


def test_a_run_is_exported_in_every_format(run, tmp_path):
    page = tmp_path / "page.html"
    assert afgrl("report", str(run.path), "--out", str(page), "--quiet").exit_code == 0
    assert page.read_text().startswith("<!doctype html>") or page.read_text().startswith("<!DOCTYPE html>")
    assert afgrl("report", str(run.path), "--out", str(page)).exit_code == 2  # it exists
    assert json.loads(afgrl("export", str(run.path), "--json").stdout)["method"] == "node_embedder"
    table = tmp_path / "vectors.csv"
    assert afgrl("embed", str(run.path), "--format", "csv", "--out", str(table), "--device", "cpu").exit_code == 0
    assert table.read_text().splitlines()[1].startswith('"p0"')
    assert afgrl("embed", str(run.path), "--format", "xml").exit_code == 2
    found = json.loads(afgrl("search", str(run.path), "p3", "-k", "4", "--index", "--json").stdout)
    assert len(found["p3"]) == 4
