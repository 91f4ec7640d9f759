"""Which column holds the names that are shown beside the ids."""

import numpy as np
import pandas as pd
import pytest

from afgrl import UserError, load
from tests.data import well_known
from tests.data.tables import messages

N = 30
NUMBERS = [7 * i for i in range(N)]
TOWNS = [f"Town {i}" for i in range(N)]
GROUPS = ["north", "south"] * (N // 2)


def name_column(columns, tmp_path, **options):
    pd.DataFrame({**columns, "v": [1.5, 2.5] * (N // 2)}).to_csv(tmp_path / "table.csv", index=False)
    dataset = load(tmp_path / "table.csv", knn_graph=3, **options)
    found = dataset.ingested.name_column
    assert any("Names shown beside the ids" in text for text in messages(dataset)) == (found is not None)
    return found


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id": NUMBERS, "name": TOWNS}, "name"),
        ({"id": NUMBERS, "region": GROUPS, "airport_name": TOWNS}, "airport_name"),
        ({"id": NUMBERS, "Title": TOWNS, "name": GROUPS}, "Title"),  # two names for thirty nodes
        ({"id": NUMBERS, "label": TOWNS}, "label"),  # what Gephi calls the name
        ({"id": NUMBERS, "label": GROUPS}, None),
        ({"id": NUMBERS, "place": TOWNS}, "place"),  # beside a number, any short text helps
        ({"id": [f"t{i}" for i in range(N)], "place": TOWNS}, None),
        ({"id": [f"t{i}" for i in range(N)], "place": TOWNS, "full_name": TOWNS}, "full_name"),
        ({"id": NUMBERS, "about": [f"a long text about the town {i}" for i in range(N)]}, None),
        ({"name": TOWNS, "nickname": [f"t {i}" for i in range(N)]}, None),  # the id is a name
    ],
)
def test_the_name_is_guessed(columns, expected, tmp_path):
    assert name_column(columns, tmp_path) == expected


def test_the_name_can_be_given_or_declined(tmp_path):
    columns = {"id": NUMBERS, "name": TOWNS, "region": GROUPS}
    assert name_column(columns, tmp_path, name="region") == "region"
    assert name_column(columns, tmp_path, name="none") is None
    assert name_column(columns, tmp_path, name="id") is None
    with pytest.raises(UserError, match=r"There is no column 'title' in table\.csv; its columns: 'name'"):
        name_column(columns, tmp_path, name="title")


def test_row_numbers_get_names(tmp_path):
    table = well_known.airports(np.random.default_rng(0))
    table.to_csv(tmp_path / "table.csv", index=False)
    dataset = load(tmp_path / "table.csv", knn_graph=3, id="none")
    assert (dataset.ingested.numbered, dataset.ingested.name_column) == (True, "name")


def test_nobody_is_warned_that_names_are_no_features(tmp_path):
    columns = {"id": NUMBERS, "name": [f"Town {i}" for i in range(N)], "mayor": [f"Mayor {i}" for i in range(N)]}
    pd.DataFrame({**columns, "v": [1.5, 2.5] * (N // 2)}).to_csv(tmp_path / "table.csv", index=False)
    warnings = messages(load(tmp_path / "table.csv", knn_graph=3), "warning")
    assert [text.split(":")[0] for text in warnings if "look like names" in text] == [
        "Ignored column 'mayor' of table.csv"
    ]
