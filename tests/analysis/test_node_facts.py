import numpy as np
import pytest
import scipy.sparse as sp

from afgrl.analysis import node_facts
from afgrl.analysis.node_facts import Lists, ListsOnDemand, NodeFacts, PageFacts
from afgrl.data.dataset import Dataset
from afgrl.graph import Graph
from tests.sample_runs import bare_run

# Column 0 is in all rows, column 1 in two, columns 2 and 3 in one each.
ROWS = sp.csr_array(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1]], dtype=np.float32))


def listed(found):
    return [part.tolist() for part in np.split(found.values, found.starts[1:-1])]


@pytest.mark.parametrize(
    ("max_entries", "lists"),
    [
        (None, [[2, 1, 0], [1, 0], [3, 0]]),
        (7, [[2, 1, 0], [1, 0], [3, 0]]),
        (6, [[2, 1], [1, 0], [3, 0]]),
        (3, [[2], [1], [3]]),
        (2, [[], [], []]),
    ],
)
def test_lists_are_cut_to_one_length_and_keep_the_rarest(max_entries, lists):
    found = Lists.rarest_first(ROWS, max_entries)
    assert listed(found) == lists
    assert found.full.tolist() == [3, 2, 2]


def test_a_hub_lists_as_many_as_are_shown(monkeypatch):
    monkeypatch.setattr(node_facts, "MAX_LISTED", 2)
    assert listed(Lists.rarest_first(ROWS))[0] == [2, 1]
    on_demand = ListsOnDemand.of_matrix(ROWS)
    assert on_demand.of(0) == [2, 1]
    assert on_demand.length(0) == 3


def test_facts_of_a_run_are_its_edges_and_words(tmp_path, monkeypatch):
    run = bare_run(tmp_path / "run", np.eye(3))
    graph = Graph(ROWS, np.array([[0, 0], [1, 2]]))
    run.save_dataset(Dataset("graph", graph))
    facts = NodeFacts.of_run(run)
    assert [facts.edges.of(row) for row in range(3)] == [[1, 2], [0], [0]]
    assert [facts.names[code] for code in facts.words.of(0)] == ["feature 2", "feature 1", "feature 0"]
    run.save_dataset(Dataset("graph", graph), with_features=False)  # as with features too large for a run
    facts = NodeFacts.of_run(run)
    assert facts.words.of(0) == []
    assert facts.edges.of(0) == [1, 2]
    assert listed(PageFacts.of_run(run, 100).edges) == [[1, 2], [0], [0]]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("with_features", [False, True])
def test_lists_on_demand_are_those_of_a_page(directed, with_features, tmp_path):
    draw = np.random.default_rng(0)
    x = (draw.random((50, 6)) < 0.4).astype(np.float32)
    graph = Graph(x, draw.integers(45, size=(2, 200)), directed=directed)  # five nodes have no edges
    run = bare_run(tmp_path / "run", np.eye(50))
    run.save_dataset(Dataset("graph", graph), with_features=with_features)
    page, facts = PageFacts.of_run(run, 10_000), NodeFacts.of_run(run)
    assert listed(page.edges) == [facts.edges.of(row) for row in range(50)]
    assert listed(page.words) == [facts.words.of(row) for row in range(50)]
    degree = np.bincount(graph.edge_index[0], minlength=50).tolist()
    assert page.edges.full.tolist() == [facts.edges.length(row) for row in range(50)] == degree
