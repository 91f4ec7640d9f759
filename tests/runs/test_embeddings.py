import csv
import sys
import time
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl.errors import UserError
from afgrl.runs import embeddings
from afgrl.runs.embeddings import FORMATS, formula_safe, read_parquet, write_vectors

# The smallest and the largest float32 among them, and one without a short decimal form.
VECTORS = np.array([[1e-45, -0.0, 0.1], [3.4028235e38, 1 / 3, -1e-8], [0, 1, 2]], dtype=np.float32)
NAMES = np.array(["ä", 'a "b", c', "line\nbreak"], dtype=object)


def same_bits(found):
    return np.array_equal(np.asarray(found, dtype=np.float32).view(np.uint32), VECTORS.view(np.uint32))


@pytest.mark.parametrize("ids", [NAMES, np.array([7, -8, 9])])
def test_parquet(tmp_path, ids):
    assert write_vectors(tmp_path / "v.parquet", ids, VECTORS) == 0
    found_ids, found = read_parquet(tmp_path / "v.parquet")
    assert found_ids.tolist() == ids.tolist()
    assert same_bits(found)


@pytest.mark.parametrize("ids", [NAMES, np.array([7, -8, 9])])
def test_parquet_in_row_groups(tmp_path, monkeypatch, ids):
    monkeypatch.setattr(embeddings, "GROUP_ROWS", 2)
    write_vectors(tmp_path / "v.parquet", ids, VECTORS)
    assert pq.ParquetFile(tmp_path / "v.parquet").num_row_groups == 2
    found_ids, found = read_parquet(tmp_path / "v.parquet")
    assert found_ids.tolist() == ids.tolist()
    assert same_bits(found)
    assert found.flags.writeable
    blocks = iter([VECTORS[:1], VECTORS[1:]])
    embeddings.write_row_groups(tmp_path / "blocks.parquet", ids, blocks)
    assert same_bits(read_parquet(tmp_path / "blocks.parquet")[1])


def soon(condition, seconds=5):
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_vectors_are_in_memory_once(tmp_path):
    vectors = np.ones((2 * embeddings.GROUP_ROWS, 64), dtype=np.float32)
    write_vectors(tmp_path / "v.parquet", np.arange(len(vectors)), vectors)
    pa.default_memory_pool().release_unused()
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    read_parquet(tmp_path / "v.parquet")
    # No table of PyArrow stays. Its threads may release what they read a moment after the result is there.
    assert soon(lambda: pa.total_allocated_bytes() - before < vectors.nbytes / 8)
    peak = tracemalloc.get_traced_memory()[1]  # of NumPy
    tracemalloc.stop()
    assert peak < 1.3 * vectors.nbytes


def test_no_vectors_can_be_written(tmp_path):
    write_vectors(tmp_path / "v.parquet", np.array([], dtype=object), np.empty((0, 3)))
    assert pq.read_table(tmp_path / "v.parquet").num_rows == 0


@pytest.mark.parametrize("ids", [NAMES, np.array([7, -8, 9])])
def test_csv(tmp_path, ids):
    assert write_vectors(tmp_path / "v.csv", ids, VECTORS, "csv") == 0
    with open(tmp_path / "v.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "e0", "e1", "e2"]
    assert [row[0] for row in rows] == [str(name) for name in ids]
    assert same_bits([[np.float32(value) for value in row[1:]] for row in rows])


def test_ids_that_a_spreadsheet_would_compute_are_made_text(tmp_path):
    ids = np.array(["=1+1", "+x", "-x", "@x", "\tx", "\rx", "x=1", "'x", ""], dtype=object)
    vectors = np.zeros((len(ids), 1), dtype=np.float32)
    assert write_vectors(tmp_path / "v.csv", ids, vectors, "csv") == 6
    with open(tmp_path / "v.csv", newline="", encoding="utf-8") as file:
        found = [row[0] for row in csv.reader(file)][1:]
    assert found == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "'\rx", "x=1", "'x", ""]


def test_numbers_compute_nothing():
    ids = np.array([-1, 2])
    found, changed = formula_safe(ids)
    assert (found.tolist(), changed) == ([-1, 2], 0)


@pytest.mark.parametrize("ids", [np.array(["ä", "b c", ""], dtype=object), np.array([7, -8, 9])])
def test_npy_has_its_ids_beside_it(tmp_path, ids):
    write_vectors(tmp_path / "v.npy", ids, VECTORS, "npy")
    assert same_bits(np.load(tmp_path / "v.npy", allow_pickle=False))
    lines = (tmp_path / "v.npy.ids.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [*(str(name) for name in ids), ""]


@pytest.mark.parametrize("name", ["line\nbreak", "ends\r", "\nstarts", "next\x85line"])
def test_an_id_of_two_lines_does_not_go_into_lines(tmp_path, name):
    with pytest.raises(UserError, match="spans several lines, which npy cannot store; use parquet, csv or npz"):
        write_vectors(tmp_path / "v.npy", np.array(["a", "b", name], dtype=object), VECTORS, "npy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ids", [NAMES, np.array([7, -8, 9])])
def test_npz_holds_both_and_nothing_pickled(tmp_path, ids):
    write_vectors(tmp_path / "v.npz", ids, VECTORS, "npz")
    with np.load(tmp_path / "v.npz", allow_pickle=False) as found:
        assert set(found) == {"ids", "embedding"}
        assert found["ids"].tolist() == ids.tolist()
        assert found["ids"].dtype.kind in "iU"
        assert same_bits(found["embedding"])


def test_lance_is_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(UserError, match=r"needs lance: pip install 'afgrl\[lance\]'\.$"):
        write_vectors(tmp_path / "v.lance", NAMES, VECTORS, "lance")


def test_lance(tmp_path):
    lance = pytest.importorskip("lance")
    for ids in (np.array([7, -8, 9]), NAMES):  # the second replaces the first
        write_vectors(tmp_path / "v.lance", ids, VECTORS, "lance")
        table = lance.dataset(str(tmp_path / "v.lance")).to_table()
        assert table["id"].to_pylist() == ids.tolist()
        assert same_bits(np.stack(table["embedding"].to_numpy(zero_copy_only=False)))
    assert [path.name for path in tmp_path.iterdir()] == ["v.lance"]


@pytest.mark.parametrize("format", ["parquet", "csv", "npy", "npz"])
def test_an_existing_file_is_replaced_whole_and_nothing_is_left_over(tmp_path, format):
    file = tmp_path / f"v.{format}"
    file.write_bytes(b"old and longer than what comes" * 1000)
    write_vectors(file, np.array([1, 2, 3]), VECTORS.astype(np.float64), format)
    assert b"old" not in file.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} <= {file.name, file.name + ".ids.txt"}


def test_what_does_not_fit_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="Unknown format 'parket'; did you mean 'parquet'"):
        write_vectors(tmp_path / "v", NAMES, VECTORS, "parket")
    with pytest.raises(UserError, match=r"The vectors have the shape \(3, 3\), but there are 2 ids"):
        write_vectors(tmp_path / "v", NAMES[:2], VECTORS)
    assert list(FORMATS) == ["parquet", "csv", "npy", "npz", "lance"]
