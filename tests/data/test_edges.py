"""Edge tables: weights, repetitions, directions."""

import pyarrow as pa
import pytest

from afgrl import UserError, load
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import NODES, messages, weights_by_ids, write_tables


def test_weights_are_read_added_and_reported(tmp_path):
    edges = "from,to,weight\nann,bob,1\nann,bob,3\nbob,cy,2\ncy,dee,0\nann,cy,9999\n"
    dataset = load(str(write_tables(tmp_path, NODES, edges)))
    assert weights_by_ids(dataset.graph) == {("ann", "bob"): 2, ("bob", "cy"): 1, ("ann", "cy"): 4999.5}
    assert "Edge weights: column 'weight' of edges.csv; only their ratios matter." in messages(dataset, "info")
    assert {
        "Repeated edges of edges.csv, their weights added: 1.",
        "Edges of edges.csv whose weight is not a number above 0, dropped: 1.",
    } <= {*messages(dataset, "fixed")}
    # The median of 1, 3, 2 and 9999 is 2.5.
    assert messages(dataset, "warning") == [
        "The largest weight in column 'weight' of edges.csv is 4,000 times the median; logarithms of the weights often "
        "work better."
    ]
    assert load(str(tmp_path), options=ReadOptions(weight="none")).graph.edge_weight is None


def test_equal_weights_are_no_weights(tmp_path):
    write_tables(tmp_path, NODES, "from,to,strength\nann,bob,3\nbob,cy,3\n")
    dataset = load(str(tmp_path), options=ReadOptions(weight="strength"))
    assert dataset.graph.edge_weight is None
    text = "All weights in column 'strength' of edges.csv are equal, so they only matter for repeated edges."
    assert text in messages(dataset, "info")


def test_a_single_weight_is_no_weight():
    edges = pa.table({"source": ["a"], "target": ["b"], "weight": [3]})
    assert dataset_from_tables(None, edges).graph.edge_weight is None


def test_a_repeated_edge_has_twice_the_weight_even_if_all_weights_are_equal(tmp_path):
    dataset = load(str(write_tables(tmp_path, NODES, "from,to,weight\nann,bob,3\nbob,cy,3\nbob,cy,3\n")))
    assert weights_by_ids(dataset.graph) == {("ann", "bob"): 1.5, ("bob", "cy"): 3}
    assert "so they only matter for repeated edges." in " ".join(messages(dataset))
    assert "Repeated edges of edges.csv, their weights added: 1." in messages(dataset, "fixed")
    write_tables(tmp_path, NODES, "from,to,weight\nann,bob,3\nbob,cy,2\nbob,cy,1\n")
    assert load(str(tmp_path)).graph.edge_weight is None
    dataset = load(str(write_tables(tmp_path, NODES, "from,to\nann,bob\nbob,cy\nbob,cy\n")))
    assert dataset.graph.edge_weight is None
    assert "Repeated edges of edges.csv, counted once: 1." in messages(dataset, "fixed")


def test_a_weight_column_without_a_usable_weight_is_an_error(tmp_path):
    write_tables(tmp_path, NODES, "from,to,weight\nann,bob,light\nbob,cy,0\n")
    with pytest.raises(UserError, match=r"weight above 0 in column 'weight' \(its first cell: 'light'\); use --weight"):
        load(str(tmp_path))


def test_a_column_called_none_can_be_the_weight(tmp_path):
    write_tables(tmp_path, NODES, "from,to,none\nann,bob,1\nbob,cy,2\n")
    assert load(str(tmp_path), options=ReadOptions(weight="none")).graph.edge_weight is not None


def test_edges_of_both_directions_are_not_reported():
    def reported(source, target):
        dataset = dataset_from_tables(None, pa.table({"source": source, "target": target}))
        return [text for text in messages(dataset) if "direction" in text or "Repeated" in text or "loop" in text]

    assert reported(["a", "b", "b", "c"], ["b", "a", "c", "b"]) == []
    assert reported(["a", "b", "b", "a"], ["b", "a", "c", "b"]) == [
        "Repeated edges of the edge table, counted once: 1.",
        "Edges of the edge table in one direction only, used in both: 1.",
    ]
    assert reported(["a", "b", "b"], ["b", "a", "b"]) == ["Self-loops of the edge table, dropped: 1."]


def test_ids_that_differ_in_leading_zeros_are_a_warning():
    nodes = pa.table({"id": ["7", "08", *(f"n{i}" for i in range(20))], "v": list(range(22))})
    edges = pa.table({"source": ["n1", "007", "008"], "target": ["n2", "n3", "n9"]})
    (text,) = messages(dataset_from_tables(nodes, edges), "warning")
    assert text == (
        "Nodes of the edge table without a row in the node table: 2 (8%), first '007', '008'. "
        "Without leading zeros, 2 of them are in the node table."
    )


def test_clean_tables_need_no_fix():
    nodes = pa.table({"id": ["1", "2", "3"], "v": [1, 2, 4]})
    edges = {"source": ["1", "2"], "target": ["2", "3"], "weight": [1, 2], "since": [1999, 2000], "Unnamed: 0": [0, 1]}
    dataset = dataset_from_tables(nodes, pa.table(edges))
    assert messages(dataset, "fixed") == messages(dataset, "warning") == []
    assert messages(dataset, "info") == [
        "Node ids: column 'id' of the node table.",
        "Edges: columns 'source' and 'target' of the edge table.",
        "Edge weights: column 'weight' of the edge table; only their ratios matter.",
        "Ignored columns of the edge table: 'since'.",
        "Edges of the edge table in one direction only, used in both: 2.",
        "Columns of the node table read as numbers: 'v'.",
    ]


@pytest.mark.parametrize(("largest", "n_warnings"), [(1000, 0), (1001, 1)])
def test_a_weight_above_a_thousand_times_the_median_is_a_warning(largest, n_warnings):
    edges = pa.table({"source": ["a", "b", "c"], "target": ["b", "c", "d"], "weight": [1, 1, largest]})
    assert len(messages(dataset_from_tables(None, edges), "warning")) == n_warnings


def test_ids_that_never_match_are_an_error():
    nodes = pa.table({"id": ["a", "b"], "v": [1, 2]})
    with pytest.raises(UserError, match=r"ids in the edge table, such as 'x', is in the node table, .* such as 'a'"):
        dataset_from_tables(nodes, pa.table({"source": ["x"], "target": ["y"]}))


def test_edges_without_a_weight_are_dropped_with_their_weights():
    edges = pa.table({"source": ["a", None, "b", "c"], "target": ["b", "c", "c", "d"], "weight": ["1", "9", "3", ""]})
    assert weights_by_ids(dataset_from_tables(None, edges).graph) == {("a", "b"): 0.5, ("b", "c"): 1.5}


@pytest.mark.parametrize(
    "weights", [[[1.0], [2.0]], [{"a": 1}] * 2, [b"a", b"b"], pa.array([1, 2], pa.duration("s"))], ids=str
)
def test_weights_of_another_type_are_an_error_of_one_sentence(weights):
    edges = pa.table({"source": ["a", "b"], "target": ["b", "c"], "weight": weights})
    with pytest.raises(UserError, match=r"in column 'weight' have the type .* instead of numbers; use --weight none"):
        dataset_from_tables(None, edges)
    assert dataset_from_tables(None, edges, ReadOptions(weight="none")).graph.edge_weight is None


def test_weights_in_a_dictionary_are_numbers():
    edges = pa.table({"source": ["a", "b"], "target": ["b", "c"], "weight": pa.array([1, 2]).dictionary_encode()})
    assert weights_by_ids(dataset_from_tables(None, edges).graph) == {("a", "b"): 0.5, ("b", "c"): 1}
