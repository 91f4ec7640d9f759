"""Names of clusters are in the user's own units."""

import re

import numpy as np
import pyarrow as pa
import pytest
import torch

from afgrl.analysis.cluster_description import describe_clusters
from afgrl.analysis.cluster_names import Difference
from afgrl.analysis.dates import date_traits
from afgrl.analysis.traits import Trait, traits_of
from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.data.tables.column_types import choose_column_types
from afgrl.data.tables.encode import TableEncoder
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.graph import Graph

LABELS = np.repeat([0, 1], [60, 40]).astype(np.int32)


def table_dataset(**columns):
    """As tables are read: every cell is text, and columns become standardized features."""
    n = len(next(iter(columns.values())))
    cells = {
        name: pa.array([None if cell is None else str(cell) for cell in column]) for name, column in columns.items()
    }
    table = pa.table({"id": pa.array([f"row {i}" for i in range(n)]), **cells})
    report = IngestReport()
    features = table.drop_columns(["id"])
    encoder = TableEncoder.fit(features, choose_column_types(features, {}, report, "a table"))
    ring = np.stack([np.arange(n), np.roll(np.arange(n), 1)])
    graph = Graph(encoder.encode(table), ring, ids=table["id"].to_numpy(), table_encoder=encoder)
    return Dataset("table", graph, ingested=Ingested(table, n, None, None, report))


def describe(dataset, labels=LABELS):
    vectors = np.ones((len(labels), 2), np.float32)
    return describe_clusters(labels, vectors, dataset.graph.ids, traits_of(dataset), dataset.graph.edge_index.numpy())


def names_of(dataset, labels=LABELS):
    return [cluster["name"] for cluster in describe(dataset, labels)]


def test_a_name_has_the_category_and_the_means_in_the_units_of_the_table():
    draw = np.random.default_rng(0)
    grape = np.where(LABELS == 0, "Cabernet", "Riesling").astype(object)
    grape[0] = "Riesling"
    alcohol = np.where(LABELS == 0, 13.4, 11.9) + draw.normal(0, 0.01, 100).round(3)
    names = names_of(table_dataset(grape=grape, alcohol=alcohol))
    assert names == ["mostly Cabernet, alcohol 13.4 against 11.9", "all Riesling, alcohol 11.9 against 13.4"]


def test_missing_cells_do_not_count_in_a_mean():
    price = [None if i % 3 == 0 else 1200.0 if LABELS[i] == 0 else 300.0 + i % 2 for i in range(100)]
    [cheap] = [row for row in describe(table_dataset(price=price))[0]["features"] if row["name"] == "price"]
    assert cheap["here"] == 1200
    assert cheap["texts"] == ["1,200", "301"] or cheap["texts"] == ["1,200", "300"]


def test_dates_are_shares_after_a_year():
    years = np.where(LABELS == 0, 2018, 2004) + np.arange(100) % 3
    years[:20] = 1999
    dates = [f"{year}-05-{1 + i % 28:02d}" for i, year in enumerate(years)]
    name = names_of(table_dataset(published=dates))[0]
    assert re.fullmatch(r"67 % published after (20\d\d) against 0 %", name)
    short = np.array(["2024-03-10", "2024-04-10", "2024-09-10"], dtype="datetime64[s]").astype(float)
    columns, says = date_traits(np.append(short, np.nan))
    assert "after March 2024" in says
    assert columns.toarray()[:, says.index("after March 2024")].tolist() == [0, 1, 1, 0]


def test_years_words_and_booleans():
    dataset = table_dataset(
        year=np.where(LABELS == 0, 2015, 1990) + np.arange(100) % 5,
        title=[f"paper {'kernel' if LABELS[i] == 0 else 'tree'} number {i}" for i in range(100)],
        paid=np.where(LABELS == 0, "true", "false"),
    )
    shown = {row["name"]: row["texts"] for row in describe(dataset)[0]["features"]}
    assert shown["year"] == ["2017", "1992"]
    assert shown["title: “kernel”"] == ["100 %", "0 %"]
    assert shown["paid: yes"] == ["100 %", "0 %"]
    assert names_of(table_dataset(paid=np.where(LABELS == 0, "true", "false")))[0] == "all paid yes"
    words = names_of(table_dataset(title=[f"one {'kernel' if LABELS[i] == 0 else 'tree'} of {i}" for i in range(100)]))
    assert words[0] == "“kernel” in 100 % against 0 %"


def test_without_features_the_name_is_the_center_and_its_edges():
    # A star around 0, a star around 6, one edge between them, and two nodes that only have an edge to 6.
    edges = np.array([[0, 0, 0, 0, 0, 6, 6, 6, 6, 6], [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]])
    ids = np.array(["Valjean", *"abcd", "e", "Myriel", *"fghij"], dtype=object)
    structure = StructuralFeatures.fit(edges, ids)
    graph = Graph(structure.encode(edges, ids), edges, ids=ids, table_encoder=structure)
    labels = np.array([0, 0, 0, 0, 0, 3, 1, 1, 1, 1, 2, 2], dtype=np.int32)
    described = describe(Dataset("graph", graph), labels)
    assert [cluster["name"] for cluster in described] == [
        "around Valjean, 4 of 5 edges inside", "around Myriel, 3 of 6 edges inside",
        "linked to Myriel, no edges inside", "around e, no edges",
    ]  # fmt: skip
    assert [cluster["center"] for cluster in described] == ["Valjean", "Myriel", "i", "e"]
    everything = str(described)
    assert not re.search("sign|hop|position|PageRank", everything)


def test_one_cluster_and_equal_names():
    dataset = table_dataset(grape=["Cabernet"] * 100)
    assert names_of(dataset, np.zeros(100, np.int32)) == ["all nodes"]
    grape = np.where(np.arange(100) < 70, "Cabernet", "Riesling")
    thirds = np.repeat([0, 1, 2], [35, 35, 30]).astype(np.int32)
    names = names_of(table_dataset(grape=grape), thirds)
    assert len(set(names)) == 3
    assert names[0].startswith("all Cabernet, around row ")


def test_labels_name_a_cluster_and_given_arrays_keep_their_units():
    x = torch.zeros(100, 3)
    x[:60, 1] = 2.5
    x[:, 2] = torch.arange(100) % 7
    graph = Graph(x, torch.empty(2, 0, dtype=torch.int64))
    names = names_of(Dataset("graph", graph, y=LABELS.astype(np.int64)))
    assert names[0] == "all label 0, feature 1 2.50 against 0.00"


@pytest.mark.parametrize(
    ("trait", "here", "elsewhere", "phrase"),
    [
        (Trait("number", "area"), 1_234_567.8, 98_765.4, "area 1,234,568 against 98,765"),
        (Trait("number", "share"), 0.01234, 0.0567, "share 0.0123 against 0.0567"),
        (Trait("number", "share"), 0.12341, 0.12342, "share 0.123410 against 0.123420"),
        (Trait("number", "change"), -0.0001, 12.5, "change 0.0 against 12.5"),
        (Trait("category", "sex", "f"), 0.8, 0.1, "mostly sex f"),
        (Trait("category", "land", "Norway"), 0.3, 0.001, "30 % Norway against <1 %"),
        (Trait("category", "land", "Norway"), 0.999, 0.1, "mostly Norway"),
        (Trait("word", "title", "kernel"), 0.999, 0.2, "“kernel” in >99 % against 20 %"),
        (Trait("feature", "feature 7"), 0.62, 0.03, "feature 7 in 62 % against 3 %"),
        (Trait("category", "city", "x" * 60), 0.9, 0.1, f"mostly {'x' * 39}…"),
    ],
)  # fmt: skip
def test_phrases(trait, here, elsewhere, phrase):
    assert Difference(trait, here, elsewhere, 1.0).phrase() == phrase
