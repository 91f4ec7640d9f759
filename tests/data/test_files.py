"""Folders and files whose names say nothing, are of no table, or are empty."""

import pandas as pd
import pyarrow as pa
import pytest

from afgrl import UserError, from_pandas, knn_graph, load
from afgrl.data.any_source import read_source
from tests.data.tables import messages

MODULES = "module,lines\nos,3\nsys,4\nre,7\nio,2\n"
IMPORTS = "importer,imported,count\nos,sys,1\nre,sys,2\nio,os,1\n"
SALES = "customer,product,price\n11,a,3\n12,b,5\n13,a,2\n11,b,9\n"


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.mark.parametrize("names", [("modules", "imports"), ("a", "b"), ("b", "a"), ("nodes", "imports")])
def test_the_table_with_ids_of_the_other_one_has_the_edges(tmp_path, names):
    nodes, edges = names
    dataset = load(write(tmp_path, **{nodes: MODULES, edges: IMPORTS}))
    assert dataset.graph.ids.tolist() == ["os", "sys", "re", "io"]
    assert dataset.graph.n_edges == 3
    assert dataset.feature_names == ["lines"]


def test_two_tables_that_say_nothing_can_be_named(tmp_path):
    write(tmp_path, modules=MODULES, imports=IMPORTS.replace("os", "x").replace("sys", "y"))
    with pytest.raises(UserError, match=r"SOURCE and that of nodes with --nodes\.$"):
        load(tmp_path)
    nodes = str(tmp_path / "modules.csv")
    write(tmp_path, imports=IMPORTS)
    for source in (tmp_path, tmp_path / "imports.csv"):
        assert load(source, nodes=nodes).graph.n_edges == 3


@pytest.mark.parametrize(
    ("name", "reason"), [("sales", "no two columns hold ids of each"), ("people", "is called like")]
)
def test_edges_that_are_not_recognized_can_be_named(tmp_path, name, reason):
    source = write(tmp_path, **{name: SALES}) / f"{name}.csv"
    with pytest.raises(UserError, match=reason) as error:
        load(source)
    assert str(error.value).index("--source-column and --target-column") < str(error.value).index("--knn-graph")
    assert load(source, source="customer", target="product").graph.n_edges == 4


def test_an_empty_table_among_several_is_left_out(tmp_path):
    shop = {"users": "user_id,age\n1,3\n2,4\n", "items": "item_id,price\n7,1\n8,2\n",
            "ratings": "user_id,item_id\n1,7\n2,8\n"}  # fmt: skip
    empty = {"more_users": "", "more_links": "user_id,item_id\n", "notes": "\n"}
    dataset = load(write(tmp_path, **shop, **empty))
    assert dataset.graph.n_edges == 2
    warning = messages(dataset, "warning")[0]
    assert warning == "Files without rows, ignored: more_links.csv, more_users.csv, notes.csv."
    (tmp_path / "ratings.csv").unlink()
    with pytest.raises(
        UserError, match=r"items.csv, users.csv\); without rows: more_links.csv, more_users.csv, notes.csv"
    ):
        load(tmp_path)


@pytest.mark.parametrize(
    ("suffix", "call"),
    [(".xlsx", "read_excel({})"), (".XLS", "read_excel({})"), (".json", "read_json({})"),
     (".jsonl", "read_json({}, lines=True)"), (".feather", "read_feather({})")],
)  # fmt: skip
def test_a_format_that_pandas_converts_is_refused_with_the_two_lines(tmp_path, suffix, call):
    path = tmp_path / f"graph{suffix}"
    path.write_bytes(b"PK\5\6" + bytes(18))  # an empty zip archive
    edges = write(tmp_path / "..", edges="source,target\na,b\n") / "edges.csv"
    for source, options in ((path, {}), (tmp_path, {}), (edges, {"nodes": str(path)})):
        with pytest.raises(UserError) as error:
            load(source, **options)
        assert str(error.value) == (
            f"The file {path} has a format that is not read; two lines of Python convert it: import pandas; "
            f"pandas.{call.format(repr(str(path)))}.to_csv({str(tmp_path / 'graph.csv')!r}, index=False)."
        )


def test_the_two_lines_convert(tmp_path):
    pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}).to_json(tmp_path / "edges.json")
    with pytest.raises(UserError) as error:
        load(tmp_path / "edges.json")
    exec(str(error.value).split("convert it: ")[1].removesuffix("."))
    assert load(tmp_path / "edges.csv").graph.n_edges == 2


@pytest.mark.parametrize(
    "read",
    [load, knn_graph, read_source, lambda table: load((table, table)), lambda table: from_pandas(table, table),
     lambda table: read_source((table, table))],
)  # fmt: skip
def test_a_table_of_another_library_is_refused_with_the_conversion(read):
    """Such as one of polars, which has the same method."""
    with pytest.raises(UserError, match=r"^A Table of pyarrow is not read; its method to_pandas\(\) makes a DataFrame"):
        read(pa.table({"id": ["a", "b"], "age": [3, 4]}))
