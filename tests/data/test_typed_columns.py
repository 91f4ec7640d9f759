"""The columns that a run stores have the types of their cells, whatever the format of the file."""

import datetime

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from afgrl import load
from afgrl.data.tables.cells import is_text_type
from afgrl.data.tables.typed_columns import typed_column

DAY = datetime.date(2024, 5, 31)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", " 2", "+3", "-4"], pa.int64(), [1, 2, 3, -4]),
        (["1", None, "2.5", "1e3"], pa.float64(), [1, None, 2.5, 1000]),
        (["1,234", "5", "12,345,678"], pa.int64(), [1234, 5, 12_345_678]),
        (["1.234,5", "2,25"], pa.float64(), [1234.5, 2.25]),
        (["True", "false", None], pa.bool_(), [True, False, None]),
        (["2024-05-31", None], pa.date32(), [DAY, None]),
        (["2024-05-31T12:30", "2024-05-31"], pa.timestamp("us"), [datetime.datetime(2024, 5, 31, 12, 30),
                                                                  datetime.datetime(2024, 5, 31)]),
        (["2024-05-31T12:30:00+02:00"], pa.timestamp("us", "UTC"),
         [datetime.datetime(2024, 5, 31, 10, 30, tzinfo=datetime.UTC)]),
        (["00501", "12345"], pa.string(), ["00501", "12345"]),  # a code: its zeros count
        (["1", "x", "2"], pa.string(), ["1", "x", "2"]),
        (["1"] * 39 + ["unknown"], pa.int64(), [1] * 39 + [None]),  # as for the features
        (["1" * 19, "2"], pa.float64(), [float("1" * 19), 2.0]),  # too long for int64
        ([None, None], pa.string(), [None, None]),
    ],
)  # fmt: skip
def test_text_becomes_the_type_of_its_cells(cells, kind, values):
    typed = typed_column(pa.chunked_array([pa.array(cells, pa.string())]))
    assert typed.type == kind
    assert typed.to_pylist() == values


EXPECTED = {"size": pa.int64(), "height": pa.float64(), "since": pa.date32(), "active": pa.bool_(), "zip": pa.string()}


def table(n=30):
    return pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(n)],
            "size": range(n),
            "height": np.arange(n) / 4,
            "since": [f"2001-01-{1 + i % 28:02}" for i in range(n)],
            "active": [i % 2 == 0 for i in range(n)],
            "zip": [f"0{i:04}" for i in range(n)],
            "label": [i % 3 - 1 for i in range(n)],
        }
    )


def write(file_format, path):
    nodes = table()
    ring = list(zip(nodes.id, np.roll(nodes.id, 1), strict=True))
    if file_format in ("graphml", "gexf"):
        graph = nx.Graph(ring)
        for row in nodes.to_dict("records"):
            graph.nodes[row["id"]].update({name: value for name, value in row.items() if name != "id"})
        if file_format == "gexf":  # where label is the name of a node
            for name in graph:
                graph.nodes[name]["class"] = graph.nodes[name].pop("label")
        getattr(nx, f"write_{file_format}")(graph, path / f"graph.{file_format}")
        return path / f"graph.{file_format}"
    edges = pd.DataFrame(ring, columns=["source", "target"])
    for name, frame in (("nodes", nodes), ("edges", edges)):
        if file_format == "parquet":
            frame = frame.assign(since=pd.to_datetime(frame.since).dt.date) if name == "nodes" else frame
            frame.to_parquet(path / f"{name}.parquet")
        else:
            frame.to_csv(path / f"{name}.{file_format}", sep="\t" if file_format == "tsv" else ";", index=False)
    return path


@pytest.mark.parametrize("file_format", ["csv", "tsv", "parquet", "graphml", "gexf"])
def test_every_format_keeps_the_types(file_format, tmp_path):
    dataset = load(write(file_format, tmp_path))
    schema = dataset.ingested.columns.schema
    types = {name: schema.field(name).type for name in EXPECTED}
    types["zip"] = pa.string() if is_text_type(types["zip"]) else types["zip"]  # pandas writes large strings
    assert types == EXPECTED
    assert dataset.n_classes == 2  # 0 and 1; -1 is no label
    assert sorted(set(dataset.y.tolist())) == [-1, 0, 1]


def test_a_type_given_by_the_user_is_kept(tmp_path):
    dataset = load(write("csv", tmp_path), columns={"size": "category"})
    assert dataset.ingested.columns["size"].type == pa.string()
    assert dataset.ingested.columns["height"].type == pa.float64()
