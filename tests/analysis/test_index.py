import json
import sys

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from afgrl.analysis import index
from afgrl.analysis.index import Index, build_index, open_index
from afgrl.analysis.neighbors import find_similar
from afgrl.cli.entry_point import app
from afgrl.errors import UserError
from afgrl.runs import embeddings
from tests.sample_runs import bare_run

pytest.importorskip("faiss")


@pytest.fixture
def vectors():
    draw = np.random.default_rng(0)
    return (draw.normal(size=(20, 16))[draw.integers(0, 20, 800)] + 0.5 * draw.normal(size=(800, 16))).astype("float32")


@pytest.fixture
def run(tmp_path, vectors):
    return bare_run(tmp_path / "run", vectors)


@pytest.fixture(params=["hnsw", "ivf"])
def kind(request, monkeypatch):
    if request.param == "ivf":
        monkeypatch.setattr(index, "MAX_HNSW_ROWS", 0)
    return request.param


def test_a_saved_index_gives_the_same_answers(run, vectors, kind):
    built = build_index(run)
    opened = open_index(run)
    assert opened.description == built.description
    assert opened.description.kind == kind
    query = torch.from_numpy(vectors[:50])
    before, after = built.nearest(query, 5), opened.nearest(query, 5)
    assert torch.equal(before.index, after.index)
    assert torch.equal(before.similarity, after.similarity)


def test_the_stored_recall_equals_an_independent_count(run, vectors, kind):
    built = build_index(run)
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    exact = np.sort(cosine, axis=1)[:, -10:]
    neighbors = built.nearest(torch.from_numpy(vectors), 11)
    similarity = np.take_along_axis(cosine, neighbors.index.numpy(), axis=1)  # minus infinity for the row itself
    recall = (similarity >= exact[:, :1] - 1e-6).sum() / (10 * len(vectors))
    assert built.description.n_queries == 800  # all rows, so both counts have the same queries
    assert built.description.recall == pytest.approx(min(recall, 1), abs=2e-3)  # ties at the last neighbor may differ
    assert built.description.recall >= 0.99
    stored = json.loads(run.index_description_file.read_text())
    assert stored["recall"] == built.description.recall
    assert stored["parameters"]["efSearch" if kind == "hnsw" else "nprobe"] in index.SEARCH_EFFORTS


def test_a_low_recall_is_reported(run, tmp_path):
    built = build_index(run)
    others = bare_run(tmp_path / "others", np.random.default_rng(1).normal(size=(800, 16)))
    measured = index._with_enough_effort(built, others, np.arange(800))  # the index does not contain these rows
    assert measured.description.recall < 0.5
    assert measured.description.parameters["efSearch"] == max(index.SEARCH_EFFORTS)


def test_the_command_says_that_it_builds_an_index_and_the_next_one_does_not(run):
    built, found = (CliRunner().invoke(app, ["search", str(run.path), "3", "--index"]) for _ in range(2))
    assert built.exit_code == found.exit_code == 0
    assert "Building an index of all vectors" in built.stderr
    assert "Building" not in found.stderr


def test_the_answer_states_the_algorithm_and_its_recall(run, kind):
    exact, approximate = find_similar(run, ["3", "7"], 5), find_similar(run, ["3", "7"], 5, index=True)
    assert (exact.algorithm, exact.recall) == ("exact", 1.0)
    assert approximate.algorithm == kind
    assert 0.99 <= approximate.recall <= 1
    assert [[row["id"] for row in rows] for rows in approximate.values()] == [
        [row["id"] for row in rows] for rows in exact.values()
    ]
    assert run.index_file.is_file()


def test_more_neighbors_than_the_search_effort(run, kind):
    found = find_similar(run, ["0"], 700, index=True)["0"]
    exact = find_similar(run, ["0"], 700)["0"]
    assert len({row["id"] for row in found} & {row["id"] for row in exact}) > 680


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_nodes(tmp_path, n, kind):
    small = bare_run(tmp_path / "small", np.eye(5, 4)[:n])
    assert build_index(small).description.recall == 1.0
    assert len(find_similar(small, ["0"], 10, index=True)["0"]) == n - 1


def test_duplicates_and_zero_rows(tmp_path, kind):
    duplicates = bare_run(tmp_path / "duplicates", np.repeat([[1.0, 2.0], [0.0, 0.0]], 30, axis=0))
    found = find_similar(duplicates, ["4"], 5, index=True)
    assert found.recall >= 0.99
    assert all(row["similarity"] == pytest.approx(1, abs=1e-6) and row["id"] != 4 for row in found["4"])


def test_an_index_of_earlier_vectors_is_refused(run, vectors):
    build_index(run)
    run.save_embedding(np.arange(800), vectors[::-1])
    with pytest.raises(UserError, match=r"belongs to other vectors; delete '.*index.json' to build it again"):
        find_similar(run, ["0"], index=True)
    find_similar(run, ["0"])
    run.index_description_file.unlink()
    find_similar(run, ["0"], index=True)


def test_an_index_of_another_size_is_refused(run, tmp_path, vectors):
    smaller = bare_run(tmp_path / "smaller", vectors[:100])
    build_index(smaller)
    build_index(run)
    description = json.loads(run.index_description_file.read_text())
    description["file_checksum"] = json.loads(smaller.index_description_file.read_text())["file_checksum"]
    run.index_description_file.write_text(json.dumps(description))
    run.index_file.write_bytes(smaller.index_file.read_bytes())
    with pytest.raises(UserError, match="belongs to other vectors"):
        open_index(run)


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "text", "keys"])
def test_a_damaged_index_is_refused(run, vectors, damage):
    build_index(run)
    content = bytearray(run.index_file.read_bytes())
    if damage == "cut":
        run.index_file.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-100] ^= 1
        run.index_file.write_bytes(content)
    elif damage == "missing":
        run.index_file.unlink()
    else:
        run.index_description_file.write_text('{"kind": "hnsw"' if damage == "text" else '{"kind": "hnsw"}')
    sentence = r"(The file '.*index\.(json|faiss)' is damaged or|has no index.faiss;).*delete index.json to build"
    with pytest.raises(UserError, match=sentence):
        open_index(run)


def test_a_missing_faiss_is_reported(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"An index needs faiss: pip install 'afgrl\[index\]'"):
        find_similar(run, ["0"], index=True)
    assert len(find_similar(run, ["0"])["0"]) == 10


def test_groups_of_vectors_give_the_index_of_all_of_them(run, vectors, kind, monkeypatch):
    whole = build_index(run)
    monkeypatch.setattr(embeddings, "GROUP_ROWS", 100)
    run.save_embedding(np.arange(800), vectors)
    in_groups = build_index(run)
    assert in_groups.description.vectors_fingerprint == whole.description.vectors_fingerprint
    query = torch.from_numpy(vectors[:50])
    assert torch.equal(in_groups.nearest(query, 5).index, whole.nearest(query, 5).index)
    assert open_index(run).n == 800


def test_only_two_files_are_written(run):
    before = {path.name for path in run.path.iterdir()}
    assert isinstance(build_index(run), Index)
    assert {path.name for path in run.path.iterdir()} - before == {"index.faiss", "index.json"}
