"""Ids of nodes, in the forms in which tables contain them."""

import pandas as pd
import pyarrow as pa
import pytest

from afgrl import UserError, from_pandas, load
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import messages, write_tables


def test_spaces_around_ids_and_labels_are_ignored(tmp_path):
    nodes = "id,v,label\n a ,1,x\nb,2, x \nc ,3,y\n"
    dataset = load(write_tables(tmp_path, nodes, "source,target\na, b\n b,c\t\n"))
    assert dataset.graph.ids.tolist() == ["a", "b", "c"]
    assert dataset.graph.n_edges == 2
    assert dataset.ingested.classes == ["x", "y"]


def test_ids_that_look_like_numbers_keep_their_zeros(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n007,7\n7,10\n")
    assert load(str(tmp_path)).graph.ids.tolist() == ["007", "7", "10"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["0", "-5", "12"], [0, -5, 12]),
        (["0", "-0", "12"], ["0", "-0", "12"]),
        (["1", "2", "1" * 19], ["1", "2", "1" * 19]),  # too long for int64
    ],
)
def test_ids_are_integers_only_if_all_are_written_as_such(ids, expected):
    edges = pa.table({"source": ids[:2], "target": ids[1:]})
    assert dataset_from_tables(None, edges).graph.ids.tolist() == expected


def test_integer_ids_stored_as_floats_are_integers():
    nodes = pa.table({"id": [1.0, -2.0, 2.0**53], "v": [1, 2, 3]})  # as text, 2.0**53 is 9.007199254740992e+15
    edges = pa.table({"source": ["1", "-2"], "target": ["-2", str(2**53)]})
    dataset = dataset_from_tables(nodes, edges, ReadOptions(id="id"))
    assert (dataset.graph.ids.tolist(), dataset.graph.n_edges) == ([1, -2, 2**53], 2)


def test_float_ids_with_fractions_stay_as_they_are():
    nodes = pa.table({"id": [1.5, 2.0, 3.0], "v": [1, 2, 3]})
    edges = pa.table({"source": [1.5], "target": [2.0]})
    assert dataset_from_tables(nodes, edges, ReadOptions(id="id")).graph.ids.tolist() == ["1.5", "2", "3"]


def test_ids_cannot_be_lists():
    nodes = pa.table({"place": [[1], [2]], "v": [1, 2]})
    with pytest.raises(UserError, match=r"Ids must be text or numbers, but their column has type list<"):
        dataset_from_tables(nodes, None, ReadOptions(id="place", knn_graph=1))


def test_ids_of_edges_written_as_decimals_match_integers():
    nodes = pa.table({"id": ["1", "2", "-3"], "v": [1, 2, 3]})
    edges = pa.table({"source": ["1.0", "2"], "target": ["2", "-3.0"]})
    dataset = dataset_from_tables(nodes, edges)
    assert (dataset.graph.ids.tolist(), dataset.graph.n_edges) == ([1, 2, -3], 2)
    assert "Ids of the edge table written as decimals are read as integers." in messages(dataset, "fixed")
    edges = pa.table({"source": ["1", "2"], "target": ["2.0", "-3"]})
    assert "Ids of the edge table written as decimals are read as integers." in messages(
        dataset_from_tables(nodes, edges), "fixed"
    )
    versions = pa.table({"id": ["1.0", "2.0", "2.1"], "v": [1, 2, 3]})  # here 1.0 is a name
    edges = pa.table({"source": ["1.0", "2.0"], "target": ["2.0", "2.1"]})
    dataset = dataset_from_tables(versions, edges, ReadOptions(id="id"))
    assert dataset.graph.ids.tolist() == ["1.0", "2.0", "2.1"]


def test_a_word_for_a_missing_value_may_be_an_id(tmp_path):
    nodes = "id,size,kind,label\nNA,1,None,x\nDE,NULL,big,y\nFR,3,big,n/a\n"
    dataset = load(str(write_tables(tmp_path, nodes, "source,target\nNA,DE\nDE,FR\nDE,NULL\n,FR\n")))
    assert dataset.graph.ids.tolist() == ["NA", "DE", "FR"]  # no node NULL
    assert dataset.graph.n_edges == 2
    assert "Edges of edges.csv with a missing end, dropped: 2, first in row 3." in messages(dataset, "fixed")
    assert dataset.feature_names == ["size", "size is missing", "kind=big"]
    assert dataset.y.tolist() == [0, 1, -1]
    frame = pd.DataFrame({"id": ["a", "b"], "kind": pd.Categorical(["None", "big"]), "v": [1, 2]})
    assert from_pandas(frame, pd.DataFrame({"source": ["a"], "target": ["b"]})).n_features == 2


def test_repeated_rows_are_dropped_and_the_others_keep_their_order():
    nodes = pa.table({"id": ["c", "a", "c", "b"], "v": [1, 2, 1, 3]})
    dataset = dataset_from_tables(nodes, pa.table({"source": ["a"], "target": ["b"]}))
    assert dataset.graph.ids.tolist() == ["c", "a", "b"]
    assert dataset.ingested.columns["v"].to_pylist() == [1, 2, 3]
    assert "Repeated rows of the node table, dropped: 1." in messages(dataset, "fixed")
    nodes = pa.table({"id": ["c", "a", "c", "b", "a"], "v": [1, 2, 1, 3, 9]})
    with pytest.raises(UserError, match=r"Two different rows of the node table have the id 'a' \(rows 2 and 5\)"):
        dataset_from_tables(nodes, None, ReadOptions(id="id"))


def test_repeated_rows_may_have_an_id_only():
    nodes = pa.table({"id": ["c", "a", "c", "b"]})
    assert dataset_from_tables(nodes, pa.table({"source": ["a"], "target": ["b"]})).graph.ids.tolist() == list("cab")


def test_the_first_row_without_an_id_is_named(tmp_path):
    with pytest.raises(UserError, match=r"without an id in column 'id': 2, first row 2; choose another column"):
        load(write_tables(tmp_path, "id,v\na,1\n,2\nb,3\n,4\n", "source,target\na,b\n"))


@pytest.mark.parametrize("cell", ["\u00a0", "\u2003", " ", " \t", "\x0c"])
def test_an_id_of_white_space_is_missing(cell, tmp_path):
    """It became the empty id, and all nodes with such ids one node."""
    folder = write_tables(tmp_path, f"id,v\na,1\n{cell},2\nc,3\n", "source,target\na,c\n")
    with pytest.raises(UserError, match=r"Rows of nodes.csv without an id in column 'id': 1, first row 2"):
        load(folder)
    (tmp_path / "nodes.csv").unlink()
    (tmp_path / "edges.csv").write_text(f"source,target\na,c\n{cell},c\na,{cell}\n")
    dataset = load(folder)
    assert dataset.graph.ids.tolist() == ["a", "c"]
    assert "Edges of edges.csv with a missing end, dropped: 2, first in row 2." in messages(dataset)


def test_nodes_of_networkx_whose_names_are_white_space_are_not_one_node():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([("a", " "), (" ", "\u00a0"), ("\u00a0", "b")])
    with pytest.raises(UserError, match=r"without an id in column 'id': 2"):
        load(graph)
