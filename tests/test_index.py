import json
import sys

import numpy as np
import pytest
import torch

from afgrl import index
from afgrl.errors import UserError
from afgrl.index import Index, build, open_index
from afgrl.runs import Run
from afgrl.search import search

pytest.importorskip("faiss")


def run_of(path, vectors):
    made = Run.create(path)
    made.write_config({"source": ""}, {})
    made.save_embedding(np.arange(len(vectors)), vectors.astype(np.float32))
    return made


@pytest.fixture
def vectors():
    draw = np.random.default_rng(0)
    return (draw.normal(size=(20, 16))[draw.integers(0, 20, 800)] + 0.5 * draw.normal(size=(800, 16))).astype("float32")


@pytest.fixture
def run(tmp_path, vectors):
    return run_of(tmp_path / "run", vectors)


@pytest.fixture(params=["hnsw", "ivf"])
def kind(request, monkeypatch):
    if request.param == "ivf":
        monkeypatch.setattr(index, "MOST_LINKED", 0)
    return request.param


def test_what_is_built_is_found_again(run, vectors, kind):
    built = build(run)
    opened = open_index(run, vectors)
    assert opened.description == built.description
    assert opened.description.kind == kind
    query = torch.from_numpy(vectors[:50])
    before, after = built.nearest(query, 5), opened.nearest(query, 5)
    assert torch.equal(before.index, after.index)
    assert torch.equal(before.similarity, after.similarity)


def test_recall_is_that_of_an_independent_count(run, vectors, kind):
    built = build(run)
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    exact = np.sort(cosine, axis=1)[:, -10:]
    found = built.nearest(torch.from_numpy(vectors), 11)
    found_all = np.take_along_axis(cosine, found.index.numpy(), axis=1)  # the row itself is minus infinity here
    right = (found_all >= exact[:, :1] - 1e-6).sum() / (10 * len(vectors))
    assert built.description.queries == 800  # all of them, so that both counts are of the same
    assert built.description.recall == pytest.approx(min(right, 1), abs=2e-3)  # equals, but for ties at the border
    assert built.description.recall >= 0.99
    stored = json.loads(run.index_description_file.read_text())
    assert stored["recall"] == built.description.recall
    assert stored["parameters"]["breadth"] in index.BREADTHS


def test_an_index_that_finds_little_says_so(run, vectors):
    built = build(run)
    others = torch.nn.functional.normalize(torch.randn(800, 16, generator=torch.Generator().manual_seed(1)))
    measured = index._broad_enough(built, others, others)  # asked for rows it does not hold
    assert measured.description.recall < 0.5
    assert measured.description.parameters["breadth"] == max(index.BREADTHS)


def test_search_says_how_it_found_them(run, kind):
    exact, approximate = search(run, ["3", "7"], 5), search(run, ["3", "7"], 5, index=True)
    assert (exact.by, exact.recall) == ("exact", 1.0)
    assert approximate.by == kind
    assert 0.99 <= approximate.recall <= 1
    assert [[row["id"] for row in rows] for rows in approximate.values()] == [
        [row["id"] for row in rows] for rows in exact.values()
    ]
    assert run.index_file.is_file()


def test_more_neighbors_than_the_breadth(run, kind):
    found = search(run, ["0"], 700, index=True)["0"]
    exact = search(run, ["0"], 700)["0"]
    assert len({row["id"] for row in found} & {row["id"] for row in exact}) > 680


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_nodes(tmp_path, n, kind):
    small = run_of(tmp_path / "small", np.eye(5, 4)[:n])
    assert build(small).description.recall == 1.0
    assert len(search(small, ["0"], 10, index=True)["0"]) == n - 1


def test_twins_and_rows_of_zeros(tmp_path, kind):
    twins = run_of(tmp_path / "twins", np.repeat([[1.0, 2.0], [0.0, 0.0]], 30, axis=0))
    found = search(twins, ["4"], 5, index=True)
    assert found.recall >= 0.99
    assert all(row["similarity"] == pytest.approx(1, abs=1e-6) and row["id"] != 4 for row in found["4"])


def test_a_stale_index_is_refused(run, vectors):
    build(run)
    run.save_embedding(np.arange(800), vectors[::-1])
    with pytest.raises(UserError, match=r"is of other vectors than it has now; delete '.*index.json' and it is built"):
        search(run, ["0"], index=True)
    search(run, ["0"])
    run.index_description_file.unlink()
    search(run, ["0"], index=True)


def test_an_index_of_another_size_is_refused(run, tmp_path, vectors):
    smaller = run_of(tmp_path / "smaller", vectors[:100])
    build(smaller)
    build(run)
    description = json.loads(run.index_description_file.read_text())
    description["checksum"] = json.loads(smaller.index_description_file.read_text())["checksum"]
    run.index_description_file.write_text(json.dumps(description))
    run.index_file.write_bytes(smaller.index_file.read_bytes())
    with pytest.raises(UserError, match="is of other vectors"):
        open_index(run, vectors)


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "text", "keys"])
def test_a_damaged_index_is_refused(run, vectors, damage):
    build(run)
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
    with pytest.raises(UserError, match=r"The index of the run '.*' is damaged; delete "):
        open_index(run, vectors)


def test_faiss_is_said_to_be_missing(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"An index needs faiss: pip install 'afgrl\[index\]'"):
        search(run, ["0"], index=True)
    assert len(search(run, ["0"])["0"]) == 10


def test_nothing_but_the_two_files_is_written(run):
    before = {path.name for path in run.path.iterdir()}
    assert isinstance(build(run), Index)
    assert {path.name for path in run.path.iterdir()} - before == {"index.faiss", "index.json"}
