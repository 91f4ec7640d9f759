"""Columns that nobody plans for."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl import UserError, load
from afgrl.data.files.options import Options


def graph(folder, cells, ids=(1, 2, 3), kinds=()):
    """A path of three nodes with these columns."""
    ids = pa.array(ids)
    pq.write_table(pa.table({"id": ids, **cells}), folder / "nodes.parquet")
    ends = {"source": ids.take([0, 1]), "target": ids.take([1, 2])}
    pq.write_table(pa.table(ends), folder / "edges.parquet")
    return load(str(folder), options=Options(columns=kinds))


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, None])
def test_what_is_not_finite_in_a_list_counts_as_missing(tmp_path, odd):
    dataset = graph(tmp_path, {"place": [[1.0, 5.0], [odd, 6.0], [3.0, 7.0]]})
    assert dataset.feature_names == ["place[0]", "place[1]"]
    np.testing.assert_allclose(dataset.graph.x.to_dense()[:, 0], [-1, 0, 1], atol=1e-6)  # the mean stands in for it


def test_whole_numbers_of_a_list_may_be_large(tmp_path):
    assert graph(tmp_path, {"place": [[2**60 + 1], [2], [3]]}).graph.n_features == 1


def test_a_list_of_dates_is_left_out(tmp_path):
    days = pa.array([[0], [1], [2]], pa.list_(pa.timestamp("s")))
    dataset = graph(tmp_path, {"days": days, "size": [1, 2, 4]})
    assert dataset.feature_names == ["size"]


@pytest.mark.parametrize("kind", ["category", "text", "number"])
@pytest.mark.parametrize("type_", [pa.string(), pa.null(), pa.list_(pa.float64())])
def test_an_empty_column_is_left_out_whatever_it_is_called(tmp_path, kind, type_):
    columns = {"note": pa.nulls(3, type_), "size": [1, 2, 4]}
    dataset = graph(tmp_path, columns, kinds=(f"note={kind}",))
    assert dataset.feature_names == ["size"]
    assert "The column 'note' of nodes.parquet is empty and left out." in [
        note.text for note in dataset.reading.notes.all
    ]


@pytest.mark.parametrize(("kind", "said"), [("category", "categories"), ("text", "text")])
@pytest.mark.parametrize(
    "cells", [[[1.0], [2.0], [3.0]], [{"a": 1}] * 3, [b"\xff"] * 3], ids=["list", "struct", "bytes"]
)
def test_what_is_no_text_cannot_be_read_as_such(tmp_path, kind, said, cells):
    sentence = rf"^The column 'place' of nodes.parquet is to be {said}, but it holds [^.]+\.$"
    with pytest.raises(UserError, match=sentence):
        graph(tmp_path, {"place": cells, "size": [1, 2, 4]}, kinds=(f"place={kind}",))


def test_decimal_ids_too_large_for_whole_numbers_stay_decimals(tmp_path):
    dataset = graph(tmp_path, {"size": [1, 2, 4]}, ids=(7.0, 2.0**63, 1e300))
    assert dataset.graph.ids.tolist() == ["7", "9.223372036854776e+18", "1e+300"]
    assert dataset.graph.n_edges == 2
