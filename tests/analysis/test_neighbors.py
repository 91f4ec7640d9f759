from types import SimpleNamespace

import numpy as np
import pytest
import torch

from afgrl.analysis import neighbors
from afgrl.analysis.neighbors import find_similar
from afgrl.errors import UserError
from afgrl.ops.knn import Neighbors
from afgrl.runs import embeddings
from afgrl.runs.folder import Run


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run")


def test_neighbors_by_hand(run):
    run.save_embedding(np.array(["a", "b", "c"], dtype=object), np.array([[1, 0], [1, 0.1], [0, 1]]))
    found = find_similar(run, ["a", "c"], k=1)
    assert found == {"a": [{"id": "b", "similarity": 0.995037}], "c": [{"id": "b", "similarity": 0.099504}]}
    assert (found.algorithm, found.recall) == ("exact", 1.0)


def test_answers_are_independent(run):
    pytest.importorskip("faiss")
    run.save_embedding(np.arange(20), np.random.default_rng(0).normal(size=(20, 4)))
    first = find_similar(run, ["0"])
    assert find_similar(run, ["0"], index=True).algorithm == "hnsw"
    assert first.algorithm == find_similar(run, ["0"]).algorithm == "exact"


def test_an_answer_of_an_index_has_its_recall_and_only_nodes_that_were_found(run, monkeypatch):
    run.save_embedding(np.array(["a", "b", "c"], dtype=object), np.eye(3))
    incomplete = Neighbors(torch.tensor([[0, 1, -1]]), torch.tensor([[1.0, 0.5, -torch.inf]]))
    description = SimpleNamespace(kind="ivf", recall=0.875)
    opened = SimpleNamespace(nearest=lambda query, k: incomplete, description=description, n=3)
    monkeypatch.setattr(neighbors, "open_index", lambda run: opened)
    answer = find_similar(run, ["a"], index=True)
    assert answer == {"a": [{"id": "b", "similarity": 0.5}]}
    assert (answer.algorithm, answer.recall) == ("ivf", 0.875)


def test_an_exact_search_reads_one_group_of_vectors_at_a_time(run, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    monkeypatch.setattr(embeddings, "GROUP_ROWS", 8)
    run.save_embedding(np.arange(50), vectors)
    monkeypatch.setattr(Run, "embedding", lambda run: pytest.fail("all vectors were read"))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for row, found in zip((41, 3, 17), find_similar(run, ["41", "3", "17"], k=9).values(), strict=True):
        cosine = unit @ unit[row]
        cosine[row] = -np.inf
        assert [each["id"] for each in found] == np.argsort(-cosine)[:9].tolist()
        assert [each["similarity"] for each in found] == pytest.approx(np.sort(cosine)[::-1][:9], abs=2e-6)


@pytest.mark.parametrize("text", ["007", "+7", " 7", "7_0", "٧"])
def test_an_integer_id_is_found_by_its_usual_digits_only(run, text):
    run.save_embedding(np.array([7, 70]), np.eye(2))
    with pytest.raises(UserError, match="Unknown node"):
        find_similar(run, [text])


def test_a_graph_with_one_node_has_no_neighbors(run):
    run.save_embedding(np.array([5]), np.ones((1, 3)))
    assert find_similar(run, ["5"]) == {"5": []}


def test_ids_are_compared_exactly(run):
    run.save_embedding(np.array(["1", "01", "1.0"], dtype=object), np.eye(3))
    assert [row["id"] for row in find_similar(run, ["01"])["01"]] == ["1", "1.0"]
    with pytest.raises(UserError, match="Unknown node '001'; did you mean '01'"):
        find_similar(run, ["1", "001"])


def test_an_unknown_node_among_many_gets_a_short_message(run):
    names = np.array([f"node-{i:06d}" for i in range(100_001)], dtype=object)
    run.save_embedding(names, np.ones((len(names), 1)))
    with pytest.raises(UserError, match=r"possible values: node-000000, .*, node-000009 and 99,991 more\.$"):
        find_similar(run, ["xyz"])
    with pytest.raises(UserError, match="did you mean 'node-000007'"):
        find_similar(run, ["nodd-000007"])


def test_the_node_itself_is_not_among_its_neighbors(run):
    run.save_embedding(np.array(["a", "b", "c", "d"], dtype=object), np.array([[1, 0], [2, 0], [3, 0], [0, 1]]))
    for name in "abc":  # three vectors of one direction
        others = [row["id"] for row in find_similar(run, [name], k=3)[name]]
        assert sorted(others) == sorted(set("abcd") - {name})
        assert others[2] == "d"


def test_at_most_k_neighbors_are_returned(run):
    run.save_embedding(np.arange(30), np.ones((30, 2)))  # all equal: the node itself may not be among the nearest
    answers = find_similar(run, [str(i) for i in range(30)], k=4)
    assert {len(rows) for rows in answers.values()} == {4}


def test_integer_ids_have_a_range_in_the_message(run):
    run.save_embedding(np.array([7, 3, 12]), np.eye(3))
    assert [row["id"] for row in find_similar(run, ["12"], k=2)["12"]] == [7, 3]
    with pytest.raises(UserError, match=r"Unknown node '5'; the ids range from 3 to 12\.$"):
        find_similar(run, ["5"])


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_neighbor_must_be_requested(run, k):
    run.save_embedding(np.arange(3), np.eye(3))
    with pytest.raises(UserError, match=f"must be at least 1, not {k}"):
        find_similar(run, ["0"], k=k)
