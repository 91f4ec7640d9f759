"""Which column is the id and which are the ends of edges, where names leave it open."""

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from afgrl import UserError, from_pandas, load
from afgrl.data.ingest import IngestReport
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.roles import TableNames, find_roles, looks_like_edges
from tests.data.tables import messages

N = 30


def customers(rng, **columns):
    """A node table with ids in random order, and the ids of the ends of edges."""
    ids = np.array([f"C{i:03}" for i in range(N)])
    nodes = pd.DataFrame({"customer_id": rng.permutation(ids), "age": rng.integers(20, 60, N)} | columns)
    return nodes, np.stack([ids, np.roll(ids, 1)])


def roles(nodes, edges, *, feature_columns=(), **options):
    tables = (None if table is None else pa.table(table) for table in (nodes, edges))
    return find_roles(*tables, ReadOptions(**options), IngestReport(), TableNames(), feature_columns=feature_columns)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def write_and_load(folder, nodes, edges, **options):
    folder.mkdir(exist_ok=True)
    nodes.to_csv(folder / "nodes.csv", **options)
    edges.to_csv(folder / "edges.csv", **options)
    return load(folder)


@pytest.mark.parametrize(
    "columns", [("source", "target"), ("from_customer", "to_customer"), ("order_id", "buyer_id", "seller_id")]
)
@pytest.mark.parametrize("index", [True, False])
def test_features_stay_with_their_nodes(columns, index, rng, tmp_path):
    """With or without the index of pandas in the file, whatever the names of the columns."""
    nodes, ends = customers(rng)
    values = [[f"o{i}" for i in range(N)], *ends] if len(columns) == 3 else ends
    edges = pd.DataFrame(dict(zip(columns, values, strict=True)))
    dataset = write_and_load(tmp_path / "graph", nodes, edges, index=index)
    assert dataset.graph.ids.tolist() == nodes.customer_id.tolist()
    assert dataset.graph.n_edges == N
    assert dataset.ingested.columns["age"].to_pylist() == nodes.age.tolist()
    assert dataset.feature_names == ["age"]
    assert from_pandas(nodes, edges).ids.tolist() == nodes.customer_id.tolist()


def test_row_numbers_may_be_the_ids(rng, tmp_path):
    nodes = pd.DataFrame({"age": rng.integers(20, 30, N)})
    edges = pd.DataFrame({"a": range(N), "b": np.roll(range(N), 1)})
    assert write_and_load(tmp_path / "graph", nodes, edges, index=True).graph.ids.tolist() == list(range(N))
    assert from_pandas(nodes, edges).ids.tolist() == list(range(N))


def test_the_column_whose_values_are_the_ends_is_the_id():
    nodes = {"id": ["1", "2", "3"], "email": ["a", "b", "c"], "phone": ["7", "8", "9"]}
    assert roles(nodes, {"u": ["7", "8"], "v": ["8", "9"]}) == ("phone", ("u", "v"))
    assert roles(nodes, {"u": ["1", "2"], "v": ["2", "3"]}) == ("id", ("u", "v"))
    assert roles(nodes, {"u": ["x", "y"], "v": ["y", "z"]}) == ("id", ("u", "v"))  # no match: the common name
    assert roles(nodes, {"u": ["1", "2"], "v": ["b", "c"]}) == ("id", ("u", "v"))  # both ends have to match


def test_half_of_the_ends_are_a_match():
    nodes = {"id": ["1", "2", "3"], "email": ["a", "b", "c"]}
    assert roles(nodes, {"u": ["1", "a", "b", "c"], "v": ["2", "a", "b", "c"]}) == ("email", ("u", "v"))
    assert roles(nodes, {"u": ["1", "2", "b", "c"], "v": ["2", "3", "b", "c"]}) == ("id", ("u", "v"))
    nodes = {"id": ["1", "2", "3", "4"], "email": ["1", "2", "c", "d"]}
    assert roles(nodes, {"u": ["1", "2", "c", "d"], "v": ["1", "2", "c", "d"]}) == ("id", ("u", "v"))


def test_only_the_ends_are_compared_if_they_are_known():
    nodes = {"id": ["1", "2", "3"], "email": ["a", "b", "c"]}
    edges = {"x": ["1", "2"], "y": ["2", "3"], "source": ["a", "b"], "target": ["b", "c"]}
    assert roles(nodes, edges) == ("email", ("source", "target"))


def test_ends_without_a_common_name_are_found_by_their_values():
    nodes = {"id": ["1", "2", "3"]}
    edges = {"when": ["x", "y"], "buyer": ["1", "2"], "note": ["p", "q"], "seller": ["2", "3"]}
    assert roles(nodes, edges) == ("id", ("buyer", "seller"))
    assert roles(nodes, edges, target="buyer") == ("id", ("seller", "buyer"))
    assert roles(nodes, edges | {"source": ["3", "1"]}) == ("id", ("source", "buyer"))
    edges_by_email = {"w": ["1", "2"], "x": ["2", "3"], "p": ["a", "b"], "q": ["b", "c"]}
    assert roles(nodes | {"email": ["a", "b", "c"]}, edges_by_email, id="email") == ("email", ("p", "q"))
    assert roles(nodes, {"empty": pa.nulls(2, pa.string()), **edges}) == ("id", ("buyer", "seller"))
    assert roles(None, edges) == (None, ("when", "buyer"))  # no ids to compare with: the first two columns


@pytest.mark.parametrize(
    ("buyer", "seller"),
    [
        (["1", "x"], ["2", "y"]),  # half of them match
        (["1", None, None], ["2", None, None]),  # missing ends do not count
        (["1.0", "2.0"], ["2.0", "3.0"]),  # integers written as decimals
        ([" 1", "2 "], ["2", "3"]),
    ],
)
def test_ends_match_ids_in_other_forms(buyer, seller):
    edges = {"note": [f"n{i}" for i in range(len(buyer))], "buyer": buyer, "seller": seller}
    assert roles({"id": ["1", "2", "3"]}, edges) == ("id", ("buyer", "seller"))


def test_a_feature_of_an_earlier_table_is_not_the_id():
    nodes = {"code": ["x", "y"], "who": ["p", "q"]}
    assert roles(nodes, None) == ("code", None)
    assert roles(nodes, None, feature_columns=["code"]) == ("who", None)


def test_only_a_column_with_a_common_name_may_be_an_id_with_repeated_values():
    assert roles({" ID ": ["a", "a"]}, None) == (" ID ", None)
    for name in ("userid", "name", "key"):
        assert roles({name: ["a", "a"]}, None) == (None, None)


def test_an_id_that_ends_in_id_comes_before_other_unique_columns():
    nodes = {"code": ["x", "y"], "userid": ["p", "q"]}
    assert roles(nodes, None) == ("userid", None)
    assert roles({"code": ["x", "y"], "userid": ["p", "p"]}, None) == ("code", None)
    assert roles({"Unnamed: 0": ["0", "1"], "code": ["x", "y"]}, None) == ("code", None)


def test_floats_and_columns_with_missing_values_are_no_ids():
    assert roles({"size": [1.5, 2.5], "city": ["x", None], "place": [[1], [2]]}, None) == (None, None)


def test_names_of_columns_may_have_capitals_and_spaces():
    nodes = {"zip": ["1", "2"], " ID ": ["a", "b"]}
    assert roles(nodes, {"x": ["a"], "From": ["u"], " TO": ["v"]}) == (" ID ", ("From", " TO"))


def test_the_first_common_name_is_taken():
    assert roles({"name": ["a", "b"], "id": ["c", "d"]}, None) == ("id", None)
    assert roles(None, {"to": ["c"], "from": ["a"], "source": ["b"]}) == (None, ("source", "to"))


def test_ends_are_not_fractions():
    assert roles(None, {"buyer": ["a", "b"], "amount": ["1", "2.5"], "seller": ["b", "c"]})[1] == ("buyer", "seller")
    assert roles(None, {"amount": ["1", "2.5"], "seller": ["b", "c"]})[1] == ("amount", "seller")  # no other column


def test_ends_are_not_a_running_number_of_the_edges():
    edges = {"Order_ID ": ["o1", "o2"], "buyer": ["a", "b"], "seller": ["b", "c"]}
    assert roles(None, edges)[1] == ("buyer", "seller")
    edges["seller"] = ["c", "d"]
    assert roles(None, edges)[1] == ("buyer", "seller")
    assert roles(None, edges | {"Order_ID ": ["o1", "o1"]})[1] == ("Order_ID ", "buyer")
    assert roles(None, {name: cells[:1] for name, cells in edges.items()})[1] == ("Order_ID ", "buyer")
    assert roles(None, {name: edges[name] for name in ("Order_ID ", "buyer")})[1] == ("Order_ID ", "buyer")


@pytest.mark.parametrize(
    ("columns", "first_row", "is_edges"),
    [
        (["a", "b"], "xy", True),  # two columns
        (["a", "b", "c"], "xyz", False),
        (["source", "c", "target"], "xyz", True),
        (["source", "b", "c"], "xyz", False),
        (["a", "b", "target"], "xyz", False),
        (["column 1", "column 2", "column 3", "column 4"], "1234", True),  # no header
        (["column 1", "column 2", "column 3", "column 4", "column 5"], "12345", False),
        (["column 1", "column 2", "column 3"], "1x3", False),
        (["column 1", "column 2", "column 3"], "x23", False),
        (["a", "b", "c"], "123", False),
    ],
)
def test_a_table_of_edges_is_recognized(columns, first_row, is_edges):
    table = pa.table({name: [cell] for name, cell in zip(columns, first_row, strict=True)})
    assert looks_like_edges(table, ReadOptions()) == is_edges


CALLS = {"caller": ["ann", "bob", "cy", "ann"], "callee": ["bob", "cy", "ann", "cy"], "minutes": ["3", "5", "2", "9"]}
PHONES = {"caller": ["11", "12", "13", "11"], "callee": ["12", "13", "11", "13"], "minutes": ["3", "5", "2", "9"]}
ANSWERS = {"first": ["yes", "no", "yes", "no"] * 3, "second": ["no", "yes", "yes", "no"] * 3, "age": ["30", "40"] * 6}
SCORES = {name: [str(cell) for cell in range(50 + i, 60 + i)] for i, name in enumerate(("math", "reading", "art"))}


@pytest.mark.parametrize(
    ("columns", "ends"),
    [
        (CALLS, ["caller", "callee"]),
        ({"when": ["mon", "tue", "mon", "wed"]} | CALLS, ["caller", "callee"]),
        (PHONES, ["caller", "callee"]),
        (ANSWERS, None),  # categories
        (SCORES, None),  # numbers that are equal by accident
        ({name: SCORES[name] for name in ("math", "reading")} | {"gender": ["f", "m"] * 5}, None),
        ({"customer": ["1", "2", "2"], "product": ["a", "b", "a"], "amount": ["1", "2", "2"]}, None),
        ({"person": ["x", "y", "z", "v"]} | CALLS, None),  # a name in each row
        ({"call_id": ["1", "2", "3", "4"]} | CALLS, None),
    ],
)  # fmt: skip
def test_columns_whose_values_are_ids_of_each_other_are_ends(columns, ends):
    table = pa.table(columns)
    assert looks_like_edges(table, ReadOptions()) == (ends is not None)
    assert not looks_like_edges(table, ReadOptions(id="none"))
    if ends is not None:
        assert roles(None, columns)[1] == tuple(ends)


def test_an_edge_needs_two_different_columns():
    with pytest.raises(UserError, match="There is only one column, 'a', in the edge table, but an edge needs a source"):
        roles(None, {"a": ["x"], "Unnamed: 0": ["1"]})
    with pytest.raises(UserError, match="'a' of the edge table cannot be both the source and the target"):
        roles(None, {"a": ["x"], "b": ["y"]}, source="a", target="a")


def test_a_repeated_row_is_dropped_if_its_column_is_called_id(rng, tmp_path):
    nodes, ends = customers(rng)
    twice = pd.concat([nodes, nodes[:2]])
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    assert write_and_load(tmp_path / "graph", twice, edges, index=False).graph.n == N
    twice.iloc[-1, 1] += 1
    with pytest.raises(UserError, match=r"Two different rows of nodes\.csv have the id"):
        write_and_load(tmp_path / "graph", twice, edges, index=False)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["3,06", "0,5", "12", "1.234,5"], [3.06, 0.5, 12, 1234.5]),
        (["1,234", "5,678.5", "12", "900"], [1234, 5678.5, 12, 900]),
    ],
)
def test_numbers_with_commas_are_features_and_weights(cells, numbers, tmp_path):
    rows = [f"n{i};{cell}" for i, cell in enumerate(cells * 5)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id;size", *rows, ""]))
    ends = [f"n{i};n{(i + 1) % len(rows)};{cell}" for i, cell in enumerate(cells * 5)]
    (tmp_path / "edges.csv").write_text("\n".join(["sep=;", "source;target;weight", *ends, ""]))
    graph = load(tmp_path).graph
    values = graph.x.to_dense()[:4, 0].numpy()
    np.testing.assert_allclose(
        (values - values.mean()) / values.std(), (numbers - np.mean(numbers)) / np.std(numbers), atol=1e-5
    )
    weight = {
        tuple(edge): value for edge, value in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)
    }
    assert weight[0, 1] / weight[2, 3] == pytest.approx(numbers[0] / numbers[2])


def test_a_label_can_be_declined(rng, tmp_path):
    nodes, ends = customers(rng, label=["a", "b"] * (N // 2))
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    assert write_and_load(tmp_path / "graph", nodes, edges, index=False).y is not None
    without = load(tmp_path / "graph", options=ReadOptions(label="none"))
    assert without.y is None
    assert "label=a" in without.feature_names


@pytest.mark.parametrize(("n_classes", "is_label"), [(15, True), (16, False)])
def test_a_label_column_has_each_value_in_two_rows_on_average(n_classes, is_label, rng, tmp_path):
    nodes, ends = customers(rng, label=[f"c{i % n_classes}" for i in range(N)])
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    dataset = write_and_load(tmp_path / "graph", nodes, edges, index=False)
    assert (dataset.y is not None) == is_label
    text = "Column 'label' of nodes.csv is not used as label, because most of its values differ; use --label label"
    assert any(message.startswith(text) for message in messages(dataset, "info")) != is_label
    assert load(tmp_path / "graph", options=ReadOptions(label="label")).n_classes == n_classes


def test_names_in_a_gexf_file_are_not_classes(tmp_path):
    nx.write_gexf(nx.karate_club_graph(), tmp_path / "club.gexf")
    assert load(tmp_path / "club.gexf").y is None


def test_ignored_columns_of_edges_are_reported(rng, tmp_path):
    nodes, ends = customers(rng)
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "since": 1999})
    report = write_and_load(tmp_path / "graph", nodes, edges, index=True).ingested.report
    assert "Ignored columns of edges.csv: 'since'." in report.sentences


def test_huge_numbers_are_numbers(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,size\n" + "".join(f"n{i},{1 + i % 3}e300\n" for i in range(9)))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    np.testing.assert_allclose(load(tmp_path).graph.x.to_dense()[:3, 0], [-(1.5**0.5), 0, 1.5**0.5], atol=1e-6)


def test_a_column_of_lists_is_not_the_id_whatever_its_name(rng, tmp_path):
    """A column named grid ends in "id"."""
    nodes, ends = customers(rng, grid=[[1.0, float(i)] for i in range(N)])
    nodes.rename(columns={"customer_id": "customer"}).to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"a": ends[0], "b": ends[1]}).to_parquet(tmp_path / "edges.parquet")
    assert load(tmp_path).graph.ids.tolist() == nodes.customer_id.tolist()
