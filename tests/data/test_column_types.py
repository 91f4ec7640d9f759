"""Types of columns: inferred, given, and of unusual cells."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl import UserError, load
from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_types import choose_column_types
from afgrl.data.tables.encode import TableEncoder
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import messages


def load_path(folder, cells, ids=(1, 2, 3), types=()):
    """A path of three nodes with these columns."""
    ids = pa.array(ids)
    pq.write_table(pa.table({"id": ids, **cells}), folder / "nodes.parquet")
    ends = {"source": ids.take([0, 1]), "target": ids.take([1, 2])}
    pq.write_table(pa.table(ends), folder / "edges.parquet")
    return load(str(folder), options=ReadOptions(columns=types))


def inferred(cells):
    return choose_column_types(pa.table({"c": cells}), {}, IngestReport(), "nodes.csv").get("c", "ignore")


@pytest.mark.parametrize(
    ("cells", "column_type"),
    [
        (["a", "b"] * 5, "category"),
        ([f"w{i}" for i in range(50)] + ["w0"], "category"),  # 50 different values
        ([f"w{i}" for i in range(51)] * 2, "category"),  # 51 different values, each in two rows
        ([f"w{i}" for i in range(51)] * 2 + ["x"], "ignore"),  # most values still occur twice, but not on average
        ([f"a long value w{i}" for i in range(60)] * 10, "category"),  # each value in ten rows
        ([f"a long value w{i}" for i in range(60)] * 9, "text"),
        (["[0.1, 2]", None, "[-1e-3,nan]"], "vector"),
        (["[0.1 2.]", " [ -3  4 ]\n"], "vector"),  # as NumPy writes them
        (["[1]", "[2]"], "vector"),
        (["[0.1, 2]", "[1, 2, 3]"], "ignore"),  # lists that differ in length
        (["[0.1, 2]", "[1, two]"], "ignore"),
        (["[0.1, 2]", "(1, 2)"], "ignore"),
        (["[]", "[]"], "category"),
        (["only"], "category"),
        (["a", "b"], "ignore"),  # all values differ
        (["one two three", "four five", "six seven eight"], "text"),  # 8 / 3 words per cell
        (["one two", "four five", "six seven eight"], "ignore"),  # 7 / 3
        (["one two three", "four five"], "text"),  # 5 / 2
        (["a", "b", None], "ignore"),  # missing cells do not count
        ([str(i) for i in range(19)] + ["x"], "number"),  # 95 % are numbers
        ([str(i) for i in range(18)] + ["x"], "ignore"),
        ([str(i) for i in range(19)] + ["x", None, None], "number"),
    ],
)
def test_the_type_follows_from_the_cells(cells, column_type):
    assert inferred(cells) == column_type


def test_each_type_is_reported_once():
    report = IngestReport()
    table = pa.table({"a": [1, 2], "b": ["x", "x"], "c": [3, 4], "d": ["p", "q"]})
    assert choose_column_types(table, {}, report, "nodes.csv") == {"a": "number", "b": "category", "c": "number"}
    assert report.sentences == [
        "Warning: Ignored column 'd' of nodes.csv: 2 different values in 2 rows look like names; use --column d=text "
        "or --column d=category to include it.",
        "Columns of nodes.csv read as numbers: 'a', 'c'.",
        "Columns of nodes.csv read as categories: 'b'.",
    ]


def test_given_types_need_their_columns():
    with pytest.raises(UserError, match=r"^There is no column 'b' in nodes.csv; its columns: 'a'\.$"):
        choose_column_types(pa.table({"a": [1]}), {"b": "text"}, IngestReport(), "nodes.csv")


def test_a_given_type_overrides_the_inferred_one(tmp_path):
    cells = {"zip": [10115, 80331, 10115], "words": ["a b", "c d", "e f"], "size": [1, 2, 4]}
    dataset = load_path(tmp_path, cells, types=("zip=category", "words=text", "size=ignore"))
    assert dataset.feature_names == ["zip=10115", "zip=80331"]  # words of one letter are no words
    dataset = load_path(tmp_path, {"place": [[1.0], [2.0], [3.0]], "size": ["1", "2", "x"]}, types=("place=number",))
    assert dataset.feature_names == ["place[0]"]
    numbers = pa.chunked_array([pa.array([*map(str, range(19)), "x"])])  # 95 % are numbers
    types = choose_column_types(pa.table({"size": numbers}), {"size": "number"}, IngestReport(), "nodes.csv")
    assert types == {"size": "number"}
    assert load_path(tmp_path, {"place": [[1.0], [2.0], [3.0]]}, types=("place=ignore",)).feature_names[0] == "degree"
    with pytest.raises(UserError, match=r"'size' of nodes\.parquet cannot be read as numbers: only 67% of its cells"):
        load_path(tmp_path, {"size": ["1", "2", "x"]}, types=("size=number",))


@pytest.mark.parametrize("text", ["zip", "=number"])
def test_a_type_is_given_as_name_and_type(text):
    with pytest.raises(UserError, match=f"--column takes name=type, for example zip=category, not '{text}'"):
        _ = ReadOptions(columns=(text,)).column_types


def test_a_column_name_may_contain_an_equals_sign():
    assert ReadOptions(columns=("a=b=text",)).column_types == {"a=b": "text"}


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, None])
def test_a_number_in_a_list_that_is_not_finite_is_missing(tmp_path, odd):
    dataset = load_path(tmp_path, {"place": [[1.0, 5.0], [odd, 6.0], [3.0, 7.0]]})
    assert dataset.feature_names == ["place[0]", "place[1]"]
    np.testing.assert_allclose(dataset.graph.x.to_dense()[:, 0], [-1, 0, 1], atol=1e-6)  # 0: the mean


def test_integers_in_a_list_may_be_large(tmp_path):
    assert load_path(tmp_path, {"place": [[2**60 + 1], [2], [3]]}).graph.n_features == 1


@pytest.mark.parametrize(
    "cells",
    [pa.array([[0], [1], [2]], pa.list_(pa.timestamp("s"))), [[1.0], [2.0], [3.0, 4.0]], [["a"], ["b"], ["c"]]],
    ids=["dates", "lengths", "words"],
)
def test_lists_that_are_no_vectors_are_ignored(tmp_path, cells):
    dataset = load_path(tmp_path, {"odd": cells, "size": [1, 2, 4]})
    assert dataset.feature_names == ["size"]
    text = "Ignored column 'odd' of nodes.parquet: its lists differ in length or contain other than numbers."
    assert text in messages(dataset, "warning")


@pytest.mark.parametrize("column_type", [(), ("place=number",)])
@pytest.mark.parametrize(
    "cells",
    [
        pa.array([[1, 5], None, [3, 7]], pa.list_(pa.float64())),
        pa.array([[1, 5], None, [3, 7]], pa.large_list(pa.int64())),
        pa.array([[1, 5], None, [3, 7]], pa.list_(pa.float32(), 2)),
        pa.array([[1, 5], None, [3, 7]], pa.list_(pa.float16(), 2)),
        pa.array(["[1, 5]", None, "[3.0, 7]"]),
        pa.array(["[1. 5.]", None, " [3.  7.]"]),
    ],
    ids=["list", "large", "fixed", "half", "written", "by NumPy"],
)
def test_lists_of_numbers_are_features(tmp_path, cells, column_type):
    if pa.types.is_fixed_size_list(cells.type) and int(pa.__version__.split(".")[0]) < 26:
        with pytest.raises(pa.ArrowNotImplementedError):  # it cannot write such a file either
            load_path(tmp_path, {"place": cells}, types=column_type)
        return
    dataset = load_path(tmp_path, {"place": cells}, types=column_type)
    assert dataset.feature_names == ["place[0]", "place[1]"]
    np.testing.assert_allclose(dataset.graph.x.to_dense(), [[-1, -1], [0, 0], [1, 1]], atol=1e-6)


def test_written_lists_stay_text_if_asked(tmp_path):
    dataset = load_path(tmp_path, {"place": ["[10, 20]", "[30, 40]", "[10, 40]"]}, types=("place=text",))
    assert dataset.feature_names == [f"place: {word}" for word in (10, 20, 30, 40)]


def test_a_category_of_many_values_keeps_the_most_frequent_and_warns():
    """130 values in 791 rows, as in a table of airports."""
    cells = [f"state {i}" for i in range(130) for _ in range(7 if i < 100 else 4 if i == 100 else 3)]
    report = IngestReport()
    table = pa.table({"state": cells})
    types = choose_column_types(table, {}, report, "nodes.csv")
    assert types == {"state": "category"}
    encoder = TableEncoder.fit(table, types, report, "nodes.csv")
    assert set(encoder.names) == {f"state=state {i}" for i in range(100)}
    assert report.sentences[-1] == (
        "Warning: Column 'state' of nodes.csv has 130 different values: the 100 most frequent are features, and the "
        "other 30, in 91 of 791 rows, are not."
    )


@pytest.mark.parametrize("column_type", ["category", "text", "number"])
@pytest.mark.parametrize("arrow_type", [pa.string(), pa.null(), pa.list_(pa.float64())])
def test_an_empty_column_is_ignored_whatever_its_given_type(tmp_path, column_type, arrow_type):
    columns = {"note": pa.nulls(3, arrow_type), "size": [1, 2, 4]}
    dataset = load_path(tmp_path, columns, types=(f"note={column_type}",))
    assert dataset.feature_names == ["size"]
    assert "Ignored column 'note' of nodes.parquet: it is empty." in messages(dataset, "fixed")


@pytest.mark.parametrize(("column_type", "plural"), [("category", "categories"), ("text", "text")])
@pytest.mark.parametrize(
    "cells", [[[1.0], [2.0], [3.0]], [{"a": 1}] * 3, [b"\xff"] * 3], ids=["list", "struct", "bytes"]
)
def test_cells_that_cannot_become_text_are_an_error(tmp_path, column_type, plural, cells):
    sentence = rf"^The column 'place' of nodes.parquet cannot be read as {plural}: its type is [^.]+\.$"
    with pytest.raises(UserError, match=sentence):
        load_path(tmp_path, {"place": cells, "size": [1, 2, 4]}, types=(f"place={column_type}",))


def test_float_ids_too_large_for_integers_stay_floats(tmp_path):
    dataset = load_path(tmp_path, {"size": [1, 2, 4]}, ids=(7.0, 2.0**63, -1e300))
    assert dataset.graph.ids.tolist() == ["7", "9.223372036854776e+18", "-1e+300"]
    assert dataset.graph.n_edges == 2
