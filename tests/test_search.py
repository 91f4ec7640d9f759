import numpy as np
import pytest

from afgrl.errors import UserError
from afgrl.runs import Run
from afgrl.search import search


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run")
    made.write_config({"source": ""}, {})
    return made


def test_an_answer_is_a_plain_mapping_that_says_how_it_was_found(run):
    run.save_embedding(np.array(["a", "b", "c"], dtype=object), np.array([[1, 0], [1, 0.1], [0, 1]]))
    found = search(run, ["a", "c"], k=1)
    assert found == {"a": [{"id": "b", "similarity": 0.995037}], "c": [{"id": "b", "similarity": 0.099504}]}
    assert (found.by, found.recall) == ("exact", 1.0)


def test_one_answer_does_not_change_another(run):
    pytest.importorskip("faiss")
    run.save_embedding(np.arange(20), np.random.default_rng(0).normal(size=(20, 4)))
    first = search(run, ["0"])
    assert search(run, ["0"], index=True).by == "hnsw"
    assert first.by == search(run, ["0"]).by == "exact"


def test_a_graph_of_one_node(run):
    run.save_embedding(np.array([5]), np.ones((1, 3)))
    assert search(run, ["5"]) == {"5": []}


def test_no_id_is_taken_for_another(run):
    run.save_embedding(np.array(["1", "01", "1.0"], dtype=object), np.eye(3))
    assert [row["id"] for row in search(run, ["01"])["01"]] == ["1", "1.0"]
    with pytest.raises(UserError, match="no node '001'; did you mean '01'"):
        search(run, ["1", "001"])


def test_a_node_that_is_none_of_many_gets_a_short_sentence(run):
    names = np.array([f"node-{i:06d}" for i in range(100_001)], dtype=object)
    run.save_embedding(names, np.ones((len(names), 1)))
    with pytest.raises(UserError, match=r"possible are node-000000, .*, node-000009 and 99,991 more\.$"):
        search(run, ["xyz"])
    with pytest.raises(UserError, match="did you mean 'node-000007'"):
        search(run, ["nodd-000007"])
