"""Nodes added to a run: every question is answered for them, and what the run was trained on does not change."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl.analysis.added_nodes import _columns_as_in, all_clusters, voted_clusters
from afgrl.analysis.projection import project_run
from afgrl.explore.nodes import Nodes, node_and_nearest, search_rows
from afgrl.report.payload import run_payload
from afgrl.runs.added import additions, all_nodes, all_vectors
from afgrl.runs.folder import Run
from tests.cli.test_commands import afgrl

SMALL = ("--set", "steps=4", "--set", "n_components=8", "--set", "n_clusters=4", "--quiet", "--device", "cpu")
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two rings of people, with clusters."""
    folder = tmp_path_factory.mktemp("added") / "people"
    folder.mkdir()
    rows = [f"p{i},{30 + i % 7 + 40 * (i % 2)},{'red' if i % 2 else 'blue'}" for i in range(40)]
    (folder / "nodes.csv").write_text("id,age,color\n" + "\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"p{i},p{(i + 2) % 40}\n" for i in range(40)))
    out = folder.parent / "run"
    assert afgrl("fit", folder, "--out", out, *SMALL).exit_code == 0
    assert afgrl("cluster", out, "-k", 2).exit_code == 0
    return out


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return Run.open(tmp_path / "run")


@pytest.fixture
def new(tmp_path):
    """A node with the columns and neighbors of p0, and one with those of p1."""
    folder = tmp_path / "june"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,age,color\ntwin,30,blue\nother,71,red\n")
    (folder / "edges.csv").write_text("source,target\ntwin,p2\ntwin,p38\nother,p3\nother,p39\n")
    return folder


def contents(run):
    return {file.name: file.read_bytes() for file in run.path.iterdir()}


def test_search_finds_added_nodes_and_is_answered_for_them(run, new):
    before = contents(run)
    answer = afgrl("add", run.path, new, *CPU, "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout) == {"run": str(run.path), "name": "june", "nodes": 2}
    after = contents(run)
    assert after.keys() - before.keys() == {"added-june.parquet"}
    assert {name for name in before if before[name] != after[name]} == {"clusters.parquet"}
    found = json.loads(afgrl("search", run.path, "twin", "other", "-k", 41, "--json").stdout)
    colors = dict(zip(*(run.nodes()[name].to_pylist() for name in ("id", "color")), strict=True))
    assert colors[found["twin"][0]["id"]] == "blue"
    assert colors[found["other"][0]["id"]] == "red"
    assert len(found["twin"]) == 41
    assert "twin" in [row["id"] for row in json.loads(afgrl("search", run.path, "p0", "--json", "-k", 20).stdout)["p0"]]


def test_an_index_answers_for_added_nodes_as_the_exact_search_does(run, new):
    pytest.importorskip("faiss")
    assert afgrl("search", run.path, "p0", "--index").exit_code == 0  # built before there are added nodes
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    for name, expected in (("p0", "twin"), ("twin", "p0")):
        exact, indexed = (
            json.loads(afgrl("search", run.path, name, "-k", 20, "--json", *options).stdout)[name]
            for options in ((), ("--index",))
        )
        assert [row["similarity"] for row in indexed] == pytest.approx([row["similarity"] for row in exact], abs=1e-5)
        assert expected in [row["id"] for row in indexed]


def test_added_nodes_are_in_the_clusters_of_their_neighbors(run, new):
    labels = run.clusters()[0]
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    everyone = all_clusters(run)
    assert np.array_equal(everyone[:40], labels)
    assert np.array_equal(run.clusters()[0], labels)
    assert everyone[40:].tolist() == [labels[0], labels[1]]
    stored = pq.read_table(run.clusters_file).to_pydict()
    assert (stored["id"][40:], stored["cluster"]) == (["twin", "other"], everyone.tolist())
    assert afgrl("cluster", run.path, "-k", 3).exit_code == 0  # clusters afterwards
    assert len(pq.read_table(run.clusters_file)) == 42
    assert run.clusters()[1]["k"] == 3


@pytest.mark.parametrize(
    ("groups", "cluster"),
    [
        ([(1, 3, 0.99), (0, 7, 0.9), (2, 40, 0.8)], 0),  # five votes would choose 1, and fifty 2
        ([(0, 4, 0.99), (1, 6, 0.6)], 0),  # votes of equal weight would choose 1
    ],
)
def test_ten_training_nodes_vote_weighted_by_their_similarity(groups, cluster):
    cosines = np.concatenate([np.full(size, cosine) for _, size, cosine in groups])
    trained = np.stack([cosines, np.sqrt(1 - cosines**2)], 1).astype(np.float32)
    labels = np.concatenate([np.full(size, label, dtype=np.int32) for label, size, _ in groups])
    assert voted_clusters(np.array([[1, 0]], dtype=np.float32), trained, labels, 3).tolist() == [cluster]


def test_added_nodes_are_on_the_map(run, new):
    points = project_run(run, "pca")
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    placed = project_run(run, "pca")
    assert np.array_equal(placed[:40], points)
    to_blue, to_red = (np.linalg.norm(placed[40] - points[start::2].mean(0)) for start in (0, 1))
    assert to_blue < to_red
    payload = run_payload(run, "run", "pca", lambda sentence: None)
    assert payload["n"] == 42
    assert payload["ids"][40:] == ["twin", "other"]
    columns = {column["name"]: column for column in payload["columns"]}
    assert columns["added"]["values"] == ["june", "training"]
    assert "Added after training: 2 nodes of june." in [entry["text"] for entry in payload["data"]["messages"]]
    nodes = Nodes.from_run(run)
    assert [nodes.ids[row] for row in search_rows(nodes, "twi", 5)] == ["twin"]
    answer = node_and_nearest(nodes, "twin", 41)
    assert len(answer["neighbors"]) == 41
    assert answer["facts"] == {"degree": 2, "edges": [2, 38], "words": []}
    assert 40 in node_and_nearest(nodes, "p2", 1)["facts"]["edges"]
    assert nodes.table.slice(40, 1).to_pylist()[0] | {"cluster": 0} == {
        "id": "twin", "age": run.nodes()["age"][0].as_py(), "color": "blue", "added": "june", "cluster": 0,
    }  # fmt: skip


def test_words_and_edges_of_added_nodes_are_shown(tmp_path):
    folder, new = tmp_path / "papers", tmp_path / "june"
    words = ["deep neural network", "graph theory proof", "neural graph embedding", "protein cell biology"]
    for path, ids in ((folder, [f"p{i}" for i in range(40)]), (new, ["first", "second"])):
        path.mkdir()
        rows = [f"{name},{words[i % 4]} {words[(i + 1) % 4]} {words[i // 2 % 4]} number" for i, name in enumerate(ids)]
        (path / "nodes.csv").write_text("id,abstract\n" + "\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"p{i},p{(i + 2) % 40}\n" for i in range(40)))
    (new / "edges.csv").write_text("source,target\nfirst,p5\nfirst,second\n")
    text = ("--column", "abstract=text")
    assert afgrl("fit", folder, "--out", tmp_path / "run", *text, *SMALL).exit_code == 0
    assert afgrl("add", tmp_path / "run", new, *CPU).exit_code == 0
    nodes = Nodes.from_run(Run.open(tmp_path / "run"))
    facts = node_and_nearest(nodes, "first", 1)["facts"]
    assert sorted(nodes.ids[row] for row in facts["edges"]) == ["p5", "second"]
    assert "abstract: “theory”" in facts["words"]
    assert sorted(facts["words"]) == sorted(node_and_nearest(nodes, "p0", 1)["facts"]["words"])
    older = tmp_path / "run" / "added-june.parquet"  # as an earlier version wrote it
    pq.write_table(pq.read_table(older).drop_columns(["linked", "words"]), older)
    nodes = Nodes.from_run(Run.open(tmp_path / "run"))
    assert node_and_nearest(nodes, "first", 1)["facts"] == {"degree": 0, "edges": [], "words": []}


STRICT = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def test_an_umlaut_in_a_strict_c_locale(tmp_path):
    """There, a name of a file with an umlaut is no text for Python, but it is a part of ids."""

    def command(*words):
        line = [sys.executable, "-m", "afgrl", *map(str, words)]
        return subprocess.run(line, env=os.environ | STRICT, capture_output=True, check=False)

    (tmp_path / "people.csv").write_text("age,height,size\n" + "".join(f"{30 + i % 7},{i % 5},1\n" for i in range(20)))
    (tmp_path / "jüni.csv").write_text("age,height,size\n33,2,1\n34,1,1\n")
    run = tmp_path / "run"
    assert afgrl("fit", tmp_path / "people.csv", "--knn-graph", 2, "--out", run, *SMALL).exit_code == 0
    added = command("add", run, tmp_path / "jüni.csv", *CPU)
    assert added.returncode == 0, added.stderr
    assert all_nodes(Run.open(run)).to_pylist()[-1] == {
        "id": "jüni:1", "age": 34, "height": 1, "size": 1, "added": "jüni",
    }  # fmt: skip
    found = command("search", run, 3, "-k", 21, "--json")
    assert "jüni:1" in [row["id"] for row in json.loads(found.stdout)["3"]]
    removed = command("remove", run, "jüni")
    assert removed.returncode == 0, removed.stderr
    assert additions(Run.open(run)) == []


def test_what_was_added_can_be_removed(run, new):
    before = contents(run)
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    answer = afgrl("remove", run.path, "june")
    assert answer.exit_code == 0, answer.output
    assert contents(run) == before
    again = afgrl("remove", run.path, "june")
    assert (again.exit_code, "has no added nodes" in again.stderr) == (2, True)


def test_what_cannot_be_added(run, new, tmp_path):
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    before = contents(run)
    same = tmp_path / "same"
    same.mkdir()
    (same / "nodes.csv").write_text("id,age,color\np0,30,blue\n")
    later = tmp_path / "july"
    later.mkdir()
    (later / "nodes.csv").write_text("id,age,color\nthird,30,blue\n")
    (later / "edges.csv").write_text("source,target\nthird,twin\nthird,p1\n")
    for words, reason in (
        ((new,), "has an addition 'june'; use --force"),
        ((same,), "are in the run already (1 node)"),
        ((same, "--alone"), "needs a new id"),
        ((later,), "the node 'twin' of the addition 'june'"),
    ):
        answer = afgrl("add", run.path, *words, *CPU)
        assert (answer.exit_code, reason in answer.stderr) == (2, True), answer.stderr
        assert contents(run) == before
    assert afgrl("remove", run.path, "july").stderr.startswith("Unknown addition 'july'")
    assert afgrl("add", run.path, new, "--force", *CPU).exit_code == 0
    assert [addition.name for addition in additions(run)] == ["june"]


def test_a_node_that_the_run_has_keeps_its_vector(run, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,age,color\np0,99,red\nnewcomer,30,blue\n")
    (folder / "edges.csv").write_text("source,target\nnewcomer,p0\n")
    trained = run.embedding()[1]
    answer = afgrl("add", run.path, folder, *CPU)
    assert answer.exit_code == 0, answer.output
    assert "already, which keep their vectors: 1." in answer.stderr
    ids, vectors = all_vectors(run)
    assert ids[40:].tolist() == ["newcomer"]
    assert np.array_equal(vectors[:40], trained)


@pytest.mark.parametrize("unlabeled", ["", "-1"])
def test_new_nodes_need_no_labels(unlabeled, trained, tmp_path):
    """Their label column is there, and empty."""
    teams, june = tmp_path / "teams", tmp_path / "june"
    shutil.copytree(Run.open(trained).spec().source, teams)
    june.mkdir()
    header, *rows = (teams / "nodes.csv").read_text().splitlines()
    for folder, nodes, label in ((teams, rows, "x"), (june, ["twin,30,blue", "other,71,red"], unlabeled)):
        (folder / "nodes.csv").write_text("\n".join([f"{header},label", *(f"{row},{label}" for row in nodes)]))
    (june / "edges.csv").write_text("source,target\ntwin,p2\nother,p3\n")
    assert afgrl("fit", teams, "--out", tmp_path / "run", *SMALL).exit_code == 0
    for words in (("embed", "--graph", june, "--out", tmp_path / "vectors.csv"), ("add", june)):
        answer = afgrl(words[0], tmp_path / "run", *words[1:], *CPU)
        assert answer.exit_code == 0, answer.output
    (addition,) = additions(Run.open(tmp_path / "run"))
    assert addition.ids.tolist() == ["twin", "other"]
    assert addition.nodes["label"].to_pylist() == [unlabeled or None] * 2


def test_a_damaged_addition_is_one_sentence(run, new):
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    (run.path / "added-june.parquet").write_bytes(b"PAR1")
    answer = afgrl("search", run.path, "p0")
    assert answer.exit_code == 2
    assert "delete it, and add the nodes again with `afgrl add`" in answer.stderr


def test_training_again_forgets_what_was_added(run, new):
    assert afgrl("add", run.path, new, *CPU).exit_code == 0
    source = run.spec().source
    assert afgrl("fit", source, "--out", run.path, "--force", *SMALL).exit_code == 0
    assert additions(run) == []


def test_columns_of_another_type_stay_empty_with_a_warning():
    own = pa.table({"id": ["a"], "age": pa.array([1], pa.int64()), "city": ["Oslo"]})
    sentences = []
    given = pa.table({"id": ["c", "b"], "age": ["old", "older"], "extra": [1, 2]})
    table = _columns_as_in(own, np.array(["b"], dtype=object), given, "new", sentences.append)
    assert table.to_pylist() == [{"id": "b", "age": None, "city": None}]
    assert table.schema.field("age").type == pa.int64()
    assert sentences == ["Warning: the column 'age' of new is not int64, so it stays empty."]
    given = pa.table({"id": ["c", "b"], "age": ["1", "2"]})
    table = _columns_as_in(own, np.array(["b"], dtype=object), given, "new", sentences.append)
    assert table["age"].to_pylist() == [2]


def test_a_run_without_additions_has_its_own_table(run):
    assert all_nodes(run).equals(run.nodes())
