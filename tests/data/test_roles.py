"""Which column is which, where names leave it open, and how people write numbers."""

import io

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from afgrl import AFGRL, Graph, UserError, load
from afgrl.data.files.options import Options

N = 30


def people(rng, **columns):
    """A table of nodes whose names are in no order, and one of edges by these names."""
    names = np.array([f"C{i:03}" for i in range(N)])
    nodes = pd.DataFrame({"customer_id": rng.permutation(names), "age": rng.integers(20, 60, N)} | columns)
    ends = np.stack([names, np.roll(names, 1)])
    return nodes, ends


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def written(folder, nodes, edges, **options):
    folder.mkdir(exist_ok=True)
    nodes.to_csv(folder / "nodes.csv", **options)
    edges.to_csv(folder / "edges.csv", **options)
    return load(folder)


@pytest.mark.parametrize(
    "columns", [("source", "target"), ("from_customer", "to_customer"), ("order_id", "buyer_id", "seller_id")]
)
@pytest.mark.parametrize("index", [True, False])
def test_features_stay_with_their_nodes(columns, index, rng, tmp_path):
    """Whether pandas wrote its index or not, and whatever the columns are called."""
    nodes, ends = people(rng)
    values = [[f"o{i}" for i in range(N)], *ends] if len(columns) == 3 else ends
    edges = pd.DataFrame(dict(zip(columns, values, strict=True)))
    dataset = written(tmp_path / "graph", nodes, edges, index=index)
    assert dataset.graph.ids.tolist() == nodes.customer_id.tolist()
    assert dataset.graph.n_edges == N
    assert dataset.reading.columns["age"].to_pylist() == nodes.age.astype(str).tolist()
    assert dataset.feature_names == ["age"]
    assert Graph.from_pandas(nodes, edges).ids.tolist() == nodes.customer_id.tolist()


def test_numbers_of_rows_may_be_the_names(rng, tmp_path):
    nodes = pd.DataFrame({"age": rng.integers(20, 30, N)})
    edges = pd.DataFrame({"a": range(N), "b": np.roll(range(N), 1)})
    assert written(tmp_path / "graph", nodes, edges, index=True).graph.ids.tolist() == list(range(N))
    assert Graph.from_pandas(nodes, edges).ids.tolist() == list(range(N))


def test_ends_are_not_fractions(tmp_path):
    (tmp_path / "edges.csv").write_text("buyer,amount,seller\n" + "".join(f"b{i},{i}.5,s{i}\n" for i in range(9)))
    assert load(tmp_path / "edges.csv").graph.n == 18


def test_a_repeated_row_of_ids_that_are_called_so_counts_once(rng, tmp_path):
    nodes, ends = people(rng)
    twice = pd.concat([nodes, nodes[:2]])
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    assert written(tmp_path / "graph", twice, edges, index=False).graph.n == N
    twice.iloc[-1, 1] += 1
    with pytest.raises(UserError, match="two different rows with the id"):
        written(tmp_path / "graph", twice, edges, index=False)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["3,06", "0,5", "12", "1.234,5"], [3.06, 0.5, 12, 1234.5]),
        (["1,234", "5,678.5", "12", "900"], [1234, 5678.5, 12, 900]),
    ],
)
def test_commas_in_numbers(cells, numbers, tmp_path):
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


@pytest.mark.parametrize("name", ["edges.txt", "edges.csv", "edges.tsv"])
@pytest.mark.parametrize("prefix", ["", "u"])
@pytest.mark.parametrize("extra", [0, 1, 2])
def test_edge_lists_without_a_header(name, prefix, extra, tmp_path):
    sign = {"txt": " ", "csv": ",", "tsv": "\t"}[name[-3:]]
    rows = [[f"{prefix}{i}", f"{prefix}{(i + 1) % 9}", f"{i}.5", "17"][: 2 + extra] for i in range(9)]
    (tmp_path / name).write_text("\n".join(sign.join(row) for row in rows) + "\n")
    for source in (tmp_path / name, tmp_path):
        graph = load(source).graph
        assert (graph.n, graph.n_edges) == (9, 9)
        assert (graph.edge_weight is not None) == (extra > 0)


def test_a_label_can_be_none(rng, tmp_path):
    nodes, ends = people(rng, label=["a", "b"] * (N // 2))
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    assert written(tmp_path / "graph", nodes, edges, index=False).y is not None
    without = load(tmp_path / "graph", options=Options(label="none"))
    assert without.y is None
    assert "label=a" in without.feature_names


def test_names_of_a_gexf_file_are_no_classes(tmp_path):
    nx.write_gexf(nx.karate_club_graph(), tmp_path / "club.gexf")
    assert load(tmp_path / "club.gexf").y is None


@pytest.mark.parametrize("network", [nx.karate_club_graph(), nx.cycle_graph(34)], ids=["attributes", "nothing"])
def test_networks_without_vectors(network):
    graph = Graph.from_networkx(network)
    assert graph.ids.tolist() == list(range(34))
    assert (graph.encoder.names == ["club=Mr. Hi", "club=Officer"]) == ("club" in network.nodes[0])
    model = AFGRL(epochs=2, n_components=8, device="cpu").fit(network)
    np.testing.assert_allclose(model.transform(network), model.embedding_, atol=1e-6)
    with pytest.raises(UserError, match="has no attribute 'age'"):
        Graph.from_networkx(network, features="age")


def test_columns_of_edges_that_count_for_nothing_are_said(rng, tmp_path):
    nodes, ends = people(rng)
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "since": 1999})
    notes = written(tmp_path / "graph", nodes, edges, index=True).reading.notes
    assert "Columns of edges.csv that count for nothing: 'since'." in notes.sentences


def test_tables_that_were_swapped(rng):
    nodes, ends = people(rng)
    edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
    with pytest.raises(UserError, match="nodes come first"):
        Graph.from_pandas(edges, nodes)
    with pytest.raises(UserError, match="nodes come first"):
        AFGRL(device="cpu").fit((edges, nodes))


def test_a_header_is_one_though_a_node_is_called_so(tmp_path):
    (tmp_path / "edges.csv").write_text(io.StringIO("source,target\nsource,b\nb,c\n").read())
    assert sorted(load(tmp_path / "edges.csv").graph.ids) == ["b", "c", "source"]


def test_vast_numbers_are_numbers(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,size\n" + "".join(f"n{i},{1 + i % 3}e300\n" for i in range(9)))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    np.testing.assert_allclose(load(tmp_path).graph.x.to_dense()[:3, 0], [-(1.5**0.5), 0, 1.5**0.5], atol=1e-6)


def test_a_list_that_is_called_an_id_is_none(rng, tmp_path):
    """As a column named grid is."""
    nodes, ends = people(rng, grid=[[1.0, float(i)] for i in range(N)])
    nodes.rename(columns={"customer_id": "customer"}).to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"a": ends[0], "b": ends[1]}).to_parquet(tmp_path / "edges.parquet")
    assert load(tmp_path).graph.ids.tolist() == nodes.customer_id.tolist()
