"""Tables that are read by way of the disk: the same dataset as in memory, and no file stays."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from afgrl import UserError
from afgrl.data import files, load, spill
from afgrl.data.spill import spilling
from tests.fuzz.written import written

CELLS = np.array(["1.5", "2", "0", "", "NA", "-3", "nan", "7.25"], dtype=object)


def random_tables(seed):
    """Nodes and edges with everything that is imperfect: repeated rows, missing and unknown ids, self-loops, repeated
    edges, missing values, weights that are no weights."""
    random = np.random.default_rng(seed)
    n, e = int(random.integers(3, 30)), int(random.integers(1, 80))
    make = [lambda i: f"n{i}", lambda i: str(i), lambda i: f"{i:04d}", lambda i: f"é {i}"][seed % 4]
    ids = [make(i) for i in random.permutation(n)]
    nodes = {
        "id": ids,
        "height": random.choice(CELLS, n),
        "width": random.standard_normal(n).round(2).astype(str),
        "color": random.choice(["red", "green", "blue", ""], n),
        "label": random.choice(["a", "b"], n),
    }
    if seed % 3 == 0:  # the first row twice
        nodes = {name: [*values, values[0]] for name, values in nodes.items()}
    known = np.array([*ids, *ids, *ids, make(n + 7), make(n + 3), *([""] if seed % 2 else [])], dtype=object)
    edges = {"source": random.choice(known, e), "target": random.choice(known, e)}
    edges["source"][0], edges["target"][0] = ids[0], ids[1]
    if seed % 4 == 1:
        edges["target"] = [f"{end}.0" if end and i % 3 == 0 else end for i, end in enumerate(edges["target"])]
    if seed % 2:
        edges["weight"] = random.choice(["1", "2.5", "0.1", "0.2", "-1", "x"], e)
        edges["weight"][0] = "1"
    if seed % 5 == 0:
        edges["since"] = random.choice(["x", "y"], e)
    return pa.table({k: list(v) for k, v in nodes.items()}), pa.table({k: list(v) for k, v in edges.items()})


def write(folder, nodes, edges, form):
    for name, table in (("nodes", nodes), ("edges", edges)):
        if form == "csv":
            pyarrow.csv.write_csv(table, folder / f"{name}.csv")
        else:
            columns = {key: pa.array([cell or None for cell in table[key].to_pylist()]) for key in table.column_names}
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def read(folder, monkeypatch, *, large, **options):
    with monkeypatch.context() as patch:
        if large:
            patch.setattr(files, "LARGE_BYTES", -1)
            patch.setattr(spill, "BLOCK_ROWS", 5)
        try:
            return load(str(folder), **options)
        except UserError as error:
            return str(error)


def assert_same(small, large):
    if isinstance(small, str):
        assert large == small
        return
    assert large.ingested.report.sentences == small.ingested.report.sentences
    a, b = small.graph, large.graph
    assert a.ids.dtype == b.ids.dtype
    assert a.ids.tolist() == b.ids.tolist()
    assert torch.equal(a.edge_index, b.edge_index)
    assert (a.edge_weight is None) == (b.edge_weight is None)
    assert a.edge_weight is None or torch.equal(a.edge_weight, b.edge_weight)
    assert a.x.layout == b.x.layout
    assert torch.equal(a.x.to_dense(), b.x.to_dense())
    assert small.ingested.columns.equals(large.ingested.columns)
    assert (small.y is None) == (large.y is None)
    assert small.y is None or np.array_equal(small.y, large.y)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("AFGRL_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("seed", range(12))
def test_tables_read_by_way_of_the_disk_give_the_same_dataset(tmp_path, monkeypatch, cache, seed, form):
    write(tmp_path, *random_tables(seed), form)
    small, large = (read(tmp_path, monkeypatch, large=large) for large in (False, True))
    assert_same(small, large)
    assert not list((cache / "spill").iterdir())


def test_an_edge_list_with_spaces_and_comments_is_the_same(tmp_path, monkeypatch):
    (tmp_path / "graph.txt").write_text("# made by hand\na  b\nb c\n\nc\ta\n# end\nd a\n")
    assert_same(*(read(tmp_path / "graph.txt", monkeypatch, large=large) for large in (False, True)))


@pytest.mark.parametrize("seed", range(20))
def test_headers_and_signs_of_comments_are_the_same(tmp_path, monkeypatch, seed):
    case, options, _ = written(seed)
    for name, content in case.files.items():
        (tmp_path / name).write_bytes(content)
    given = {"header": options[1]} if options else {}
    small, large = (read(tmp_path / case.source, monkeypatch, large=large, **given) for large in (False, True))
    assert not isinstance(small, str)
    assert_same(small, large)


def test_numbers_as_ids_are_the_same(tmp_path, monkeypatch):
    edges = pa.table({"source": [1.0, 2.0, None, 4.0], "target": [2, 3, 1, 12345678901]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    assert_same(*(read(tmp_path, monkeypatch, large=large) for large in (False, True)))


def test_features_in_an_array_are_the_same(tmp_path, monkeypatch):
    edges = pa.table({"source": ["0", "1", "9"], "target": ["1", "2", "0"]})
    pyarrow.csv.write_csv(edges, tmp_path / "edges.csv")
    for dtype in (np.float16, np.float32, np.int64):
        np.save(tmp_path / "features.npy", np.arange(1, 13).reshape(4, 3).astype(dtype))
        assert_same(*(read(tmp_path, monkeypatch, large=large) for large in (False, True)))


def test_errors_are_the_same_and_leave_no_files(tmp_path, monkeypatch, cache):
    (tmp_path / "nodes.csv").write_text("id,x\na,1\nb,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb\n")
    small, large = (read(tmp_path, monkeypatch, large=large) for large in (False, True))
    assert small == large
    assert "line 3" in large
    assert not list((cache / "spill").iterdir())


def test_without_duckdb_one_sentence_says_how_to_install_it(tmp_path, monkeypatch):
    write(tmp_path, *random_tables(0), "csv")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'afgrl[large]'" in read(tmp_path, monkeypatch, large=True)
    assert not isinstance(read(tmp_path, monkeypatch, large=False), str)


def test_files_of_a_killed_process_are_removed_by_the_next_one(cache):
    program = """
import os, signal
from afgrl.data.spill import spilling
with spilling() as spill:
    spill.new_file().write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    (left,) = (cache / "spill").iterdir()
    with spilling() as current:
        assert [file.name for file in (cache / "spill").iterdir()] == [current.folder.name] != [left.name]
