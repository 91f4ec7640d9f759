"""Columns become features."""

import json
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from afgrl import UserError, load
from afgrl.data.files import load_files
from afgrl.data.ingest import IngestReport
from afgrl.data.tables.encode import TableEncoder, table_encoder_from_json
from tests.data.tables import messages, write_tables


def test_columns_are_encoded_like_by_scikit_learn(tmp_path):
    dataset = load(str(write_tables(tmp_path)))
    x = dataset.graph.x.to_dense().numpy()
    names = dataset.feature_names
    ages = np.array([30, 41, 29.0])
    expected = StandardScaler().fit_transform(ages[:, None])[:, 0]
    np.testing.assert_allclose(x[[0, 1, 3], names.index("age")], expected, atol=1e-6)
    assert x[2, names.index("age")] == 0  # the mean
    assert x[:, names.index("age is missing")].tolist() == [0, 0, 1, 0, 1]
    assert x[:, names.index("city=Paris")].tolist() == [1, 0, 1, 0, 0]
    texts = ["likes long walks and old maps", "likes maps and good wine", "reads about old wine and walks",
             "draws maps of long rivers"]  # fmt: skip
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(texts)
    words = [names.index(f"about: {word}") for word in vectorizer.get_feature_names_out()]
    np.testing.assert_allclose(x[:4, words], vectorizer.transform(texts).toarray(), atol=1e-6)
    assert not x[4, words].any()


def test_a_table_encoder_is_stored_as_json_and_encodes_the_same():
    table = pa.table({"n": [1.0, 2.0, None], "c": ["x", "y", "x"], "t": ["a bee sea", "sea bee", None],
                      "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]]})  # fmt: skip
    table_encoder = TableEncoder.fit(table, {"n": "number", "c": "category", "t": "text", "v": "vector"})
    again = table_encoder_from_json(json.loads(json.dumps(table_encoder.as_json())))
    assert again == table_encoder
    np.testing.assert_array_equal(again.encode(table).toarray(), table_encoder.encode(table).toarray())
    other = pa.table({"n": [7.0], "c": ["unseen"], "t": ["nothing known"], "v": [[0.0, 0.0]]})
    row = table_encoder.encode(other).toarray()[0]
    assert row[table_encoder.names.index("c=x")] == row[table_encoder.names.index("c=y")] == 0
    with pytest.raises(UserError, match="The table has no column 'c'"):
        table_encoder.encode(other.drop_columns(["c"]))
    with pytest.raises(UserError, match="in column 'v' have 3 numbers, but the model was trained with 2"):
        table_encoder.encode(other.set_column(3, "v", pa.array([[0.0, 0.0, 0.0]])))


def test_counts_stay_sparse():
    words = np.zeros((50, 30), dtype=int)
    words[np.arange(50), np.arange(50) % 30] = 1
    table = pa.table({f"w{i}": words[:, i] for i in range(30)})
    table_encoder = TableEncoder.fit(table, dict.fromkeys(table.column_names, "number"))
    np.testing.assert_array_equal(table_encoder.encode(table).toarray(), words)


def test_counts_are_divided_by_their_maximum():
    counts = [0] * 8 + [2, 4]
    table = pa.table({"count": counts, "centered": [0] * 7 + [1, 2, 4], "negative": [0] * 8 + [-2, 4]})
    table_encoder = TableEncoder.fit(table, dict.fromkeys(table.column_names, "number"))
    x = table_encoder.encode(table).toarray()
    np.testing.assert_allclose(x[:, 0], np.array(counts) / 4)
    np.testing.assert_allclose(x[:, 1:].mean(axis=0), 0, atol=1e-6)  # fewer than 80 % zeros, or negative numbers


def test_missing_numbers_are_indicated_only_if_the_fitted_column_had_some():
    fitted = TableEncoder.fit(pa.table({"v": [1.0, 3.0]}), {"v": "number"})
    assert fitted.names == ["v"]
    np.testing.assert_allclose(fitted.encode(pa.table({"v": [None, 3.0]})).toarray(), [[0], [1]])


def test_numbers_and_vectors_are_standardized_like_by_scikit_learn():
    rows = np.array([[1.0, -2.0], [4.0, 5.0], [9.0, 3.0]])
    table = pa.table({"v": rows.tolist(), "n": rows[:, 0], "huge": (rows[:, 1] + 3) * -1e300})
    x = TableEncoder.fit(table, {"v": "vector", "n": "number", "huge": "number"}).encode(table).toarray()
    expected = StandardScaler().fit_transform(np.column_stack([rows, rows[:, 0], -rows[:, 1]]))
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_text_is_encoded_like_by_scikit_learn():
    texts = ["Maps and maps and MAPS", "old maps", "an old wine"]
    table = pa.table({"t": texts})
    table_encoder = TableEncoder.fit(table, {"t": "text"})
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(texts)
    assert table_encoder.names == [f"t: {word}" for word in vectorizer.get_feature_names_out()]
    np.testing.assert_allclose(table_encoder.encode(table).toarray(), vectorizer.transform(texts).toarray(), rtol=1e-6)


def test_a_column_without_any_number_is_zero():
    table = pa.table({"d": ["2021-13-01", "2021-14-01"]})
    table_encoder = TableEncoder.fit(table, {"d": "date"})
    assert table_encoder.encode(table).toarray().tolist() == [[0, 1], [0, 1]]  # missing


def test_the_hundred_most_frequent_categories_have_a_feature():
    cells = [f"c{i:03}" for i in range(120) for _ in range(2 if i >= 10 else 1)]
    table_encoder = TableEncoder.fit(pa.table({"c": cells}), {"c": "category"})
    assert len(table_encoder.names) == 100
    assert table_encoder.names[0] == "c=c010"
    few = TableEncoder.fit(pa.table({"c": ["b", "b", "a"]}), {"c": "category"})
    assert few.names == ["c=a", "c=b"]  # sorted by value


def test_rare_words_of_long_tables_have_no_feature():
    cells = [f"common words and number{i}" for i in range(49)] + ["common twice"] * 2
    report = IngestReport()
    names = ["t: and", "t: common", "t: twice", "t: words"]
    assert TableEncoder.fit(pa.table({"t": cells}), {"t": "text"}, report, "nodes.csv").names == names
    start = "Words of the text column 't' of nodes.csv that become features"
    assert report.sentences == [f"{start}: 4 of 53, those in two rows or more."]
    assert len(TableEncoder.fit(pa.table({"t": cells[:50]}), {"t": "text"}).names) == 53
    without_words = TableEncoder.fit(pa.table({"t": ["?", "!"]}), {"t": "text"})
    assert without_words.encode(pa.table({"t": ["a word"]})).shape == (1, 0)


def test_the_two_thousand_most_frequent_words_have_a_feature():
    report = IngestReport()
    table = pa.table({"t": [" ".join(f"w{i}" for i in range(n, 3000)) for n in (0, 1000)]})
    encoder = TableEncoder.fit(table, {"t": "text"}, report, "nodes.csv")
    assert set(encoder.names) == {f"t: w{i}" for i in range(1000, 3000)}
    start = "Words of the text column 't' of nodes.csv that become features"
    assert report.sentences == [f"{start}: 2,000 of 3,000, the most frequent ones."]


def test_written_lists_of_new_nodes_must_be_lists():
    fitted = TableEncoder.fit(pa.table({"v": ["[1, 5]", "[3, 7]"]}), {"v": "vector"})
    np.testing.assert_allclose(fitted.encode(pa.table({"v": [[3.0, 5.0]]})).toarray(), [[1, -1]])
    with pytest.raises(UserError, match=r"^The cells in column 'v' must be lists of numbers\.$"):
        fitted.encode(pa.table({"v": ["[3, 7]", "unknown"]}))


def test_lists_of_numbers_and_dates(tmp_path):
    days = pa.array([0, 1, 2], pa.date32())
    nodes = {
        "id": ["a", "b", "c"],
        "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]],
        "day": days,
        "at": days.cast(pa.timestamp("s")),
        "lasts": pa.array([1, 2, 3], pa.duration("s")),
    }
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,other\n")
    dataset = load(str(tmp_path))
    assert dataset.feature_names == ["v[0]", "v[1]", "day", "at"]
    np.testing.assert_allclose(dataset.graph.x.to_dense()[3], 0)  # a node without columns
    text = "Ignored column 'lasts' of nodes.parquet: its type duration[s] is not supported."
    assert text in messages(dataset, "warning")


def test_dates_and_booleans_of_csv_files_are_numbers_like_those_of_parquet_files(tmp_path):
    days = ["2020-01-01", "2020-01-02 12:00", "2020-01-03T13:00:00+01:00", "2020-01-05T00:00:00Z"]
    rows = "".join(f"{i},{day},{'TRUE' if i % 2 else 'false'}\n" for i, day in enumerate(days))
    dataset = load(str(write_tables(tmp_path, "id,born,active\n" + rows, "source,target\n0,1\n1,2\n2,3\n")))
    assert dataset.feature_names == ["born", "active"]
    assert {
        "Columns of nodes.csv read as dates: 'born'.",
        "Columns of nodes.csv read as booleans: 'active'.",
    } <= {*messages(dataset, "info")}
    born, active = dataset.graph.x.to_dense().T
    hours = np.array([0, 36, 60, 96])
    np.testing.assert_allclose(born, (hours - hours.mean()) / hours.std(), atol=1e-6)
    np.testing.assert_allclose(active, [-1, 1, -1, 1])
    # New nodes are read like the old ones, from any file format.
    new = pa.table({"born": [datetime(2020, 1, 2, 12)], "active": [True]})
    np.testing.assert_allclose(dataset.graph.table_encoder.encode(new).toarray(), [[born[1], 1]], atol=1e-6)


@pytest.mark.parametrize("extra", [[], ["26,soon,\n"]])
def test_a_cell_that_is_not_a_date_is_missing(tmp_path, extra):
    rows = [f"{i},2021-03-{i + 1:02},\n" for i in range(24)] + ["24,2021-13-01,\n", "25,,\n", *extra]
    dataset = load(str(write_tables(tmp_path, "id,born,empty\n" + "".join(rows), "source,target\n0,1\n")))
    assert dataset.feature_names == ["born", "born is missing"]
    assert dataset.graph.x.to_dense()[:, 1].tolist() == [0.0] * 24 + [1.0] * (2 + len(extra))
    text = f"not dates, treated as missing: {1 + len(extra)}, first '2021-13-01' in row 25."
    assert text in " ".join(messages(dataset, "fixed"))


def test_unread_cells_of_new_nodes_are_reported(tmp_path):
    nodes = "id,age\n" + "".join(f"n{i},{i}\n" for i in range(30))
    old = write_tables(tmp_path / "old", nodes, "source,target\nn0,n1\n")
    new = write_tables(tmp_path / "new", "id,age\na,12\nb,old\nc,inf\nd,\n", "source,target\na,b\n")
    dataset = load_files(new, fitted=load_files(old).graph.table_encoder)
    text = "Cells in column 'age' of nodes.csv that are not numbers, treated as missing: 2, first 'old' in row 2."
    assert text in messages(dataset, "fixed")


def test_infinite_cells_are_reported(tmp_path):
    sizes = [1.0, float("nan"), float("-inf"), None]
    pq.write_table(pa.table({"id": list("abcd"), "size": sizes}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    text = "Cells in column 'size' of nodes.parquet that are infinite, treated as missing: 1, first -inf in row 3."
    assert text in messages(load_files(tmp_path), "fixed")


@pytest.mark.parametrize("dtype", [pa.date32(), pa.timestamp("us"), pa.timestamp("s", tz="UTC")])
def test_dates_of_every_arrow_type_are_seconds(dtype):
    table = pa.table({"day": pa.array([datetime(2020, 1, 1), datetime(2020, 1, 3)]).cast(dtype, safe=False)})
    (part,) = TableEncoder.fit(table, {"day": "number"}).parts
    assert (part.mean, part.scale) == (1577923200, 86_400)  # 2020-01-02
