"""The label column of a node table."""

import pyarrow as pa
import pytest
import torch

from afgrl import UserError, load
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import NODES, messages, write_tables


def test_the_label_does_not_change_the_features(tmp_path):
    before = load(str(write_tables(tmp_path))).graph.x
    assert torch.equal(load(str(write_tables(tmp_path, NODES.replace(",a\n", ",b\n")))).graph.x, before)


def test_classes_that_are_numbers_are_sorted_by_value(tmp_path):
    rows = [f"n{i},{i},{label}" for i, label in enumerate(["10", "9", "x", "2", "10"])]
    dataset = load(write_tables(tmp_path, "id,v,label\n" + "\n".join(rows) + "\n", "source,target\nn0,n1\n"))
    assert dataset.ingested.classes == ["2", "9", "10", "x"]
    assert dataset.y.tolist() == [2, 1, 3, 0, 2]


def label_of(cells):
    nodes = pa.table({"id": [f"n{i}" for i in range(len(cells))], "label": cells})
    return dataset_from_tables(nodes, pa.table({"source": ["n0"], "target": ["n1"]})).ingested.label


def test_a_label_column_needs_repeated_values():
    words = [f"w{i}" for i in range(20)]
    assert label_of(words[:19]) == "label"  # too few rows to tell
    assert label_of(words) is None
    assert label_of(words + [None] * 40) is None  # unlabeled nodes do not count
    assert label_of([[1], [2], [1]]) is None


def test_a_fully_labeled_table_has_no_message_about_unlabeled_nodes():
    nodes = pa.table({"id": ["a", "b"], "v": [1, 2], "label": ["x", "y"]})
    dataset = dataset_from_tables(nodes, pa.table({"source": ["a"], "target": ["b"]}))
    assert not any("without a label" in text for text in messages(dataset))


@pytest.mark.parametrize("cells", [pa.nulls(2, pa.string()), pa.nulls(2), ["", " "], ["-1", None], [-1.0, -1.0]])
def test_a_label_column_without_labels_gives_none(cells):
    nodes = pa.table({"id": ["a", "b"], "v": [1, 2], "label": cells})
    edges = pa.table({"source": ["a"], "target": ["b"]})
    dataset = dataset_from_tables(nodes, edges)
    assert dataset.y is None
    assert dataset.feature_names == ["v"]
    assert "No node has a label in column 'label' of the node table." in messages(dataset)
    with pytest.raises(UserError, match="The label column 'label' of the node table has no labels"):
        dataset_from_tables(nodes, edges, ReadOptions(label="label"))
    another = dataset_from_tables(nodes.append_column("class", [["x", "y"]]), edges)
    assert another.ingested.label == "class"


def test_minus_one_is_a_missing_label_also_as_a_decimal(tmp_path):
    """As pandas writes integers beside missing values; 2 is the only class above 0, so there are two classes."""
    rows = "".join(f"n{i},{i},{label}\n" for i, label in enumerate(["0.0", "2.0", "-1.0", "", "2.0"]))
    dataset = load(write_tables(tmp_path, "id,v,label\n" + rows, "source,target\nn0,n1\n"))
    assert dataset.ingested.classes == ["0", "2"]
    assert dataset.y.tolist() == [0, 1, -1, -1, 1]
