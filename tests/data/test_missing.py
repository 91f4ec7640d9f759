"""Words that mean a missing value."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from afgrl import from_pandas, load
from afgrl.data.files import load_files
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.options import ReadOptions
from tests.data import well_known
from tests.data.tables import messages, write_tables

EDGES = pa.table({"source": ["a", "b"], "target": ["b", "c"]})


def kinds(cells, other=None, **options):
    columns = {"id": ["a", "b", "c", "d", "e"], "kind": cells, "size": other or list("12345")}
    dataset = dataset_from_tables(pa.table(columns), EDGES, ReadOptions(**options))
    return dataset.ingested.columns["kind"].to_pylist(), messages(dataset, "info")


def test_north_america_and_namibia_survive(tmp_path):
    rng = np.random.default_rng(0)
    for table, column in ((well_known.airports(rng), "continent"), (well_known.cities(rng), "country")):
        table.to_csv(tmp_path / "table.csv", index=False)
        dataset = load(tmp_path / "table.csv", knn_graph=5)
        assert f"{column}=NA" in dataset.feature_names
        assert dataset.ingested.columns[column].null_count == 0
        assert any(text.startswith(f"'NA' in column '{column}' of table.csv is a value") for text in messages(dataset))
        assert f"{column}=NA" not in load(tmp_path / "table.csv", knn_graph=5, na_values="NA").feature_names


@pytest.mark.parametrize(
    ("cells", "other", "survives"),
    [
        (["NA", "DE", "FR", "US", "DE"], None, True),
        (["NA", "DE", "FR", "US", "NULL"], None, True),
        (["NA", "DE", "FR", "DE", "FR"], None, False),  # two others may be a coincidence
        (["NA", "DE", "FR", "US", "USA"], None, False),
        (["NA", "DE", "FR", "US", "DE"], ["1", "NA", "3", "4", "5"], False),  # the table writes missing values so
    ],
)
def test_na_is_a_code_among_codes(cells, other, survives):
    assert (kinds(cells, other)[0][0] == "NA") == survives


def test_what_was_missing_is_reported():
    cells, report = kinds(["NA", "big", "NULL", "NA", "n/a "])
    assert cells == [None, "big", None, None, None]
    assert (
        "Cells of the node table read as missing values: 'NA' (2), 'NULL' (1), 'n/a' (1); --na-values adds words, "
        "--no-default-na keeps NA and the like." in report
    )
    assert not any("missing values" in text for text in kinds(["a", "b", "a", "b", ""])[1])


def test_words_can_be_added_and_the_default_ones_kept():
    assert kinds(["?", "big", "NULL", "big", "-"], na_values=("?", "-"))[0] == [None, "big", None, "big", None]
    assert kinds(["?", "big", "NULL", "big", "-"], na_values=("?",), keep_default_na=False)[0] == [
        None, "big", "NULL", "big", "-",
    ]  # fmt: skip
    assert kinds(["-999", "1", "2", "3", "4"], na_values=("-999",))[0] == [None, 1, 2, 3, 4]
    assert kinds([-999, 1, 2, 3, 4], na_values=("-999", "?"))[0] == [None, 1, 2, 3, 4]
    assert kinds([-999.0, 1, 2, 3, 4], na_values=("-999",))[0] == [None, 1, 2, 3, 4]
    assert kinds(["NA", "DE", "FR", "US", "DE"], keep_default_na=False)[0][0] == "NA"


def test_an_id_is_never_missing(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nNA,DE\nDE,FR\nFR,?\n")
    assert load(tmp_path).graph.ids.tolist() == ["NA", "DE", "FR", "?"]  # there is no node table to look it up
    assert load(tmp_path, na_values=["?"]).graph.ids.tolist() == ["NA", "DE", "FR"]
    write_tables(tmp_path, "id,v\nNA,1\nDE,2\nFR,3\n", "source,target\nNA,DE\nDE,NULL\n")
    dataset = load(tmp_path, na_values=["NA"])
    assert (dataset.graph.ids.tolist(), dataset.graph.n_edges) == (["NA", "DE", "FR"], 1)


def test_frames_have_the_same_words():
    nodes = pd.DataFrame({"id": list("abc"), "kind": ["?", "x", "y"]})
    edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    assert from_pandas(nodes, edges, columns={"kind": "category"}).n_features == 3
    assert from_pandas(nodes, edges, columns={"kind": "category"}, na_values=["?"]).n_features == 2


def test_a_category_of_the_training_table_is_a_value_in_new_tables(tmp_path):
    nodes = "id,place\n" + "".join(f"n{i},{['NA', 'EU', 'AS', 'SA'][i % 4]}\n" for i in range(12))
    old = load_files(write_tables(tmp_path / "old", nodes, "source,target\nn0,n1\n"))
    new = write_tables(tmp_path / "new", "id,place\nx,NA\ny,EU\n", "source,target\nx,y\n")
    place = old.feature_names.index("place=NA")
    assert load_files(new, fitted=old.graph.table_encoder).graph.x.to_dense()[0, place] == 1
