"""Which column of a node table is the id: by its role, not by its name alone."""

import numpy as np
import pandas as pd
import pytest

from afgrl import UserError, load
from tests.data import well_known
from tests.data.tables import messages, write_tables


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def read(table, tmp_path, **options):
    table.to_csv(tmp_path / "table.csv", index=False, na_rep="NA")
    return load(tmp_path / "table.csv", knn_graph=15, **options)


def id_message(dataset):
    [text] = [text for text in messages(dataset) if text.startswith("Node ids")]
    return text


@pytest.mark.parametrize("name", well_known.BUNDLED)
def test_rows_without_a_unique_column_are_numbered(name, tmp_path):
    table = well_known.bundled(name)
    dataset = read(table, tmp_path)
    assert dataset.graph.ids.tolist() == list(range(len(table)))  # equal rows of iris are two nodes
    assert dataset.graph.n_edges >= 15 * len(table) / 2
    assert id_message(dataset) == "Node ids: row numbers of table.csv, from 0; --id chooses a column."
    assert dataset.ingested.numbered


@pytest.mark.parametrize(("name", "n_classes"), [("iris", 3), ("wine", 3), ("diabetes", 0), ("breast_cancer", 2)])
def test_a_target_of_few_classes_is_the_label(name, n_classes, tmp_path):
    """The target of diabetes is a number to predict, with half as many values as rows."""
    dataset = read(well_known.bundled(name), tmp_path)
    assert dataset.n_classes == n_classes
    assert ("target" in dataset.feature_names) == (n_classes == 0)


def test_penguins_are_numbered(rng, tmp_path):
    dataset = read(well_known.penguins(rng), tmp_path)
    assert dataset.graph.n == well_known.N
    assert "bill_length_mm is missing" in dataset.feature_names


def test_a_measurement_is_not_the_id_even_if_no_value_repeats(rng, tmp_path):
    dataset = read(well_known.gapminder(rng), tmp_path)
    assert dataset.ingested.id_column is None
    assert id_message(dataset).endswith(
        "--id chooses a column ('pop', 'gdpPercap': all different, but neither names nor codes)."
    )
    assert read(well_known.gapminder(rng), tmp_path, id="pop").ingested.id_column == "pop"


def test_codes_come_before_names(rng, tmp_path):
    dataset = read(well_known.airports(rng), tmp_path)
    assert id_message(dataset) == "Node ids: column 'iata' of table.csv; next best: 'name' (choose with --id)."
    assert dataset.ingested.name_column == "name"
    assert read(well_known.airports(rng), tmp_path, id="name").graph.ids[0] == "Aaa International"
    dataset = read(well_known.cities(rng), tmp_path)
    assert id_message(dataset) == "Node ids: column 'geonameid' of table.csv; next best: 'name' (choose with --id)."


WORDS = [f"word{i}" for i in range(40)]


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({"born": [f"2001-01-{1 + i:02}" for i in range(28)], "nick": WORDS[:28]}, "nick"),
        ({"born": [f"2001-01-{1 + i:02}" for i in range(28)]}, None),  # a date is when, not who
        ({"about": [f"a long text of many words {i}" for i in range(40)]}, None),
        ({"who": [f"Ann {i}" for i in range(40)], "login": WORDS}, "login"),
        ({"who": [f"Ann {i}" for i in range(40)], "nick": WORDS}, "nick"),  # no spaces: rather a code
        ({"rank": list(range(1, 41)), "who": [f"Ann {i}" for i in range(40)]}, "who"),
        ({"rank": list(range(40, 0, -1))}, "rank"),  # running numbers, in any order
        ({"size": [3 * i for i in range(40)]}, None),
        ({"zip": [f"{i:05}" for i in range(0, 4000, 100)]}, "zip"),
        ({"isbn": [9_780_000 + 7 * i for i in range(40)]}, "isbn"),
        ({"index": [i / 2 for i in range(40)]}, None),
        ({"key": WORDS, "name": WORDS, "user_id": WORDS}, "key"),
        ({"name": WORDS[:20] * 2, "code": WORDS}, "code"),
    ],
)
def test_the_role_of_a_column_decides(columns, chosen, tmp_path):
    table = pd.DataFrame({**columns, "v": [1.5, 2.5] * (len(next(iter(columns.values()))) // 2)})
    assert read(table, tmp_path).ingested.id_column == chosen


def test_row_numbers_can_be_forced(rng, tmp_path):
    dataset = read(well_known.cities(rng), tmp_path, id="none")
    assert dataset.graph.ids.tolist() == list(range(well_known.N))
    assert "geonameid" in dataset.ingested.columns.column_names
    assert id_message(dataset) == "Node ids: row numbers of table.csv, from 0."


def test_edges_may_refer_to_row_numbers(tmp_path):
    nodes = "name,size\n" + "".join(f"ann {i % 9},{i % 4}\n" for i in range(10))
    edges = "a,b\n" + "".join(f"{i},{(i + 1) % 10}\n" for i in range(10))
    for options in ({}, {"id": "none"}):
        dataset = load(write_tables(tmp_path, nodes, edges), **options)
        assert (dataset.graph.n, dataset.graph.n_edges) == (10, 10)
    with pytest.raises(UserError, match=r"No column of nodes\.csv has the ids that edges\.csv refers to; .* --id: 'na"):
        load(write_tables(tmp_path, nodes, edges + "9,10\n"))


def test_an_error_about_ids_names_the_option(tmp_path):
    with pytest.raises(UserError, match=r"have the id 'a' \(rows 1 and 2\); choose .* --id, or --id none to number"):
        load(write_tables(tmp_path, "id,v\na,1\na,2\n", "source,target\na,a\n"))
