"""Files that were made to crash, block or fill the memory: one sentence, at once, and little memory."""

import gzip
import io
import os
import socket
import time
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

from afgrl import UserError, load
from afgrl.data import unpacking
from afgrl.data.formats.arrays import load_features
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.read import read_table
from tests.data.small_files import small_arrays, write_npz
from tests.fuzz.corpus import npz, scipy_arrays, tensors

EDGES = "source,target\n" + "".join(f"{i},{(i + 1) % 20}\n" for i in range(20))


def message(source, **options):
    with pytest.raises(UserError) as caught:
        load(source, options=ReadOptions(**options))
    sentence = str(caught.value)
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("part", "value"),
    [("indices", 31), ("indices", -1), ("indptr", 99), ("indptr", -3), ("shape", -20), ("shape", 3), ("shape", 2**62)],
)
def test_indices_beyond_the_matrix_never_reach_native_code(part, value, tmp_path):
    """An index of 31 in 20 columns ended the interpreter with a segmentation fault."""
    arrays = scipy_arrays(np.eye(20))
    arrays[part] = arrays[part].astype(np.int64)
    arrays[part][1] = value
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "features.npz").write_bytes(npz(arrays))
    assert str(tmp_path / "features.npz") in message(tmp_path)


def test_row_pointers_whose_differences_overflow_never_reach_native_code(tmp_path):
    """SciPy compares neighbors by their difference: -2**63 after 20 looks like an increase. The interpreter crashed."""
    arrays = scipy_arrays(np.eye(20))
    arrays["indptr"] = arrays["indptr"].astype(np.int64)
    arrays["indptr"][-1] = -(2**63)
    (tmp_path / "features.npz").write_bytes(npz(arrays))
    with pytest.raises(UserError, match="indptr must be between 0 and 20"):
        load_features(tmp_path / "features.npz")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_all_formats_of_scipy_are_read(form, tmp_path):
    matrix = sp.random_array((6, 4), density=0.5, rng=np.random.default_rng(0)).asformat(form)
    sp.save_npz(tmp_path / "features.npz", matrix)
    assert np.array_equal(load_features(tmp_path / "features.npz").todense(), matrix.todense())


@pytest.mark.parametrize("form", ["csc", "coo", "bsr"])
def test_indices_of_all_formats_are_checked(form, tmp_path):
    sp.save_npz(tmp_path / "features.npz", sp.csr_array(np.eye(6)).asformat(form))
    with np.load(tmp_path / "features.npz") as stored:
        arrays = dict(stored)
    name = "row" if form == "coo" else "indices"
    arrays[name] = arrays[name] + 6
    (tmp_path / "features.npz").write_bytes(npz(arrays))
    with pytest.raises(UserError, match="contains no features or is damaged"):
        load_features(tmp_path / "features.npz")


@pytest.mark.parametrize(
    "shape", [(10**6, 10**6), (2**62, 4), (2**40,)], ids=["a trillion", "more than 64 bits", "one dimension"]
)
def test_a_header_that_claims_more_than_the_file_has_is_refused(shape, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    (tmp_path / "features.npy").write_bytes(header.getvalue() + bytes(100))
    (tmp_path / "edges.csv").write_text(EDGES)
    assert "more than the file has" in message(tmp_path)


def test_fortran_order_and_empty_arrays_are_read(tmp_path):
    matrix = np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3))
    np.save(tmp_path / "features.npy", matrix)
    assert np.array_equal(load_features(tmp_path / "features.npy"), matrix)
    np.save(tmp_path / "features.npy", np.empty((0, 3)))
    assert load_features(tmp_path / "features.npy").shape == (0, 3)


def test_what_unpacks_to_hundreds_of_times_its_size_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    with gzip.open(tmp_path / "edges.csv.gz", "wb") as file:
        file.write(b"source,target\n" + b"a,b\n" * (1 << 22))
    assert "unpacks to more than 200 times its size" in message(tmp_path / "edges.csv.gz")
    (tmp_path / "graph.npz").write_bytes(npz({"adj_data": np.zeros(1 << 22)}))
    tracemalloc.start()
    assert "unpacks to more than 200 times its size" in message(tmp_path / "graph.npz")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def dictionary(rows, length=1 << 14):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length]))


def lists(texts, *offsets):
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)


DENSE_TABLES = {
    "a dictionary": (lambda: dictionary(1000), {}),
    "a dictionary after empty cells": (
        lambda: pa.concat_arrays([pa.nulls(500, dictionary(1).type), dictionary(500)]),
        {},
    ),
    "a dictionary in lists": (lambda: lists(dictionary(1000), 0, 0, 500, 1000), {}),
    "a dictionary in structs": (lambda: pa.StructArray.from_arrays([dictionary(1000)], ["a"]), {}),
    "bytes of one length": (lambda: dictionary(1000).cast(pa.string()).cast(pa.binary()).cast(pa.binary(1 << 14)), {}),
    "compressed texts": (lambda: dictionary(1000).cast(pa.string()), {"use_dictionary": False}),
    "texts with the same start": (
        lambda: dictionary(1000).cast(pa.string()),
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
    ),
}


@pytest.mark.parametrize(("column", "options"), DENSE_TABLES.values(), ids=DENSE_TABLES.keys())
def test_cells_that_become_hundreds_of_times_their_file_are_refused_before_they_are_read(
    column, options, tmp_path, monkeypatch
):
    """16 MB in a few hundred bytes, which is the ratio of 5 GiB in 78 kB."""
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(pq, "read_table", None)
    pq.write_table(
        pa.table({"text": column()}), tmp_path / "nodes.parquet", compression="zstd", store_schema=False, **options
    )
    assert (tmp_path / "nodes.parquet").stat().st_size < 5000
    assert "nodes.parquet unpacks to more than 200 times its size" in message(tmp_path / "nodes.parquet", knn_graph=2)


def test_text_that_is_not_utf8_is_damage(tmp_path):
    buffers = pa.array([b"a", b"\xff", b"c"]).buffers()
    text = pa.Array.from_buffers(pa.string(), 3, buffers)
    pq.write_table(pa.table({"id": text, "age": [1, 2, 3]}), tmp_path / "nodes.parquet")
    assert "is not a Parquet file or is damaged: " in message(tmp_path / "nodes.parquet", knn_graph=1)


def test_one_long_cell_in_a_table_is_read(tmp_path, monkeypatch):
    """If each cell were as long as the longest, the table would be refused."""
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    words = [None] * 5000 + ["x" * 100_000] + ["y"] * 5000
    for column in (words, [[word] for word in words]):
        pq.write_table(pa.table({"text": column}), tmp_path / "nodes.parquet")
        assert read_table(tmp_path / "nodes.parquet")["text"].to_pylist() == column


EXPANDED = {
    "edges": {"edge_index": torch.zeros(1, dtype=torch.int64).expand(2, 10**7)},
    "features": {"x": torch.ones(1).expand(12, 10**7)},
    "sparse features": {"x": torch.ones(1, 1).to_sparse().sparse_resize_((10**5, 10**5), 2, 0)},
}


@pytest.mark.parametrize("changed", EXPANDED.values(), ids=EXPANDED.keys())
def test_a_tensor_that_is_much_larger_than_its_file_is_refused(changed, tmp_path):
    torch.save(tensors() | changed, tmp_path / "graph.pt")
    assert (tmp_path / "graph.pt").stat().st_size < 5000
    start = time.perf_counter()
    assert "graph.pt unpacks to more than" in message(tmp_path / "graph.pt")
    assert time.perf_counter() - start < 5


def test_an_encrypted_archive_is_refused(tmp_path):
    content = bytearray(npz(small_arrays()))
    for start in [at for at in range(len(content)) if content.startswith(b"PK\x01\x02", at)]:
        content[start + 8] |= 1
    (tmp_path / "graph.npz").write_bytes(content)
    assert message(tmp_path / "graph.npz").endswith("is encrypted.")


def test_a_compression_that_is_not_known_is_refused(tmp_path):
    content = bytearray(npz(small_arrays(), zipfile.ZIP_STORED))
    for signature, offset in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        for start in [at for at in range(len(content)) if content.startswith(signature, at)]:
            content[start + offset] = 77
    (tmp_path / "graph.npz").write_bytes(content)
    assert "is damaged: That compression method is not supported" in message(tmp_path / "graph.npz")


def test_a_damaged_gzip_file_is_one_sentence(tmp_path):
    content = bytearray(gzip.compress(EDGES.encode()))
    content[20:40] = bytes(20)
    (tmp_path / "edges.csv.gz").write_bytes(content)
    assert "cannot be unpacked" in message(tmp_path / "edges.csv.gz")


KINDS = {
    "a complex tensor": ("x", lambda x: x.to(torch.complex64), "complex64 tensor"),
    "a conjugate view": ("edge_index", lambda x: x.to(torch.complex64).conj(), "complex64 tensor"),
    "a quantized tensor": ("x", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "qint8 tensor"),
    "a tensor without values": ("x", lambda x: x.to("meta"), "without values"),
    "a list": ("x", lambda x: x.tolist(), "type list"),
    "text": ("x", lambda x: "text", "type str"),
    "fractions as edges": ("edge_index", lambda x: x / 2, "must be integers"),
    "booleans as edges": ("edge_index", lambda x: x > 3, "must be integers"),
    "negative edges": ("edge_index", lambda x: x - 1, "refers to node -1"),
    "edges without shape": ("edge_index", lambda x: x.sum(), "must be integers of shape"),
    "features without shape": ("x", lambda x: x[0], "must have shape"),
}


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about kinds of tensors that are deprecated
@pytest.mark.parametrize(("name", "change", "expected"), KINDS.values(), ids=KINDS.keys())
def test_tensors_of_unusual_kinds_are_refused(name, change, expected, tmp_path):
    values = tensors()
    torch.save(values | {name: change(values[name])}, tmp_path / "graph.pt")
    assert expected in message(tmp_path / "graph.pt")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda x: x.bfloat16()),
        ("x", lambda x: x.to(torch.float8_e4m3fn)),
        ("x", lambda x: x.to_sparse()),
        ("x", lambda x: x.to_sparse_csr()),
        ("x", lambda x: x.requires_grad_()),
        ("edge_index", lambda x: x.to(torch.uint64)),
        ("y", lambda x: x.to(torch.uint8)),
        ("edge_weight", lambda x: x.half()),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_tensors_of_other_types_are_read(name, change, tmp_path):
    values = tensors()
    torch.save(values, tmp_path / "plain.pt")
    torch.save(values | {name: change(values[name])}, tmp_path / "graph.pt")
    plain, found = load(tmp_path / "plain.pt"), load(tmp_path / "graph.pt")
    assert torch.equal(plain.graph.edge_index, found.graph.edge_index)
    assert torch.equal(plain.graph.x.to_dense(), found.graph.x.to_dense())
    assert np.array_equal(plain.y, found.y)


def test_a_number_of_nodes_without_features_is_limited(tmp_path):
    values = tensors()
    torch.save({"edge_index": values["edge_index"], "num_nodes": 10**12}, tmp_path / "graph.pt")
    assert "1,000,000,000,000 nodes without features" in message(tmp_path / "graph.pt")


@pytest.mark.parametrize("encoding", ["rot13", "hex", "zlib", "base64", "latin-99", "utf-8\0"])
def test_codecs_that_are_no_encodings_of_text(encoding, tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES)
    assert message(tmp_path / "edges.csv", encoding=encoding).startswith("Unknown encoding")


def test_long_cells_are_read_and_long_names_and_rows_are_not(tmp_path):
    file = tmp_path / "nodes.csv"
    file.write_text("id,text,age\na," + "x" * 200_000 + ",1\nb,y,2\nc,z,3\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    assert load(tmp_path).graph.n == 3
    file.write_text("id," + "x" * 200_000 + "\na,1\n")
    assert "field larger than field limit" in message(tmp_path)
    file.write_text("id,text\na," + "x" * 50_000_000 + "\nb,y\nc,z\n")
    assert "longer than 16 MiB" in message(tmp_path)


def test_only_files_and_folders_are_sources(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo.csv")
    assert "is a FIFO, not a file or folder" in message(tmp_path / "fifo.csv")
    assert "is a device" in message("/dev/zero")
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.csv")
        assert "is a socket" in message("./socket.csv")
    (tmp_path / "edges.csv").write_text(EDGES)
    assert "is a FIFO" in message(tmp_path / "edges.csv", nodes=str(tmp_path / "fifo.csv"))


def test_paths_that_cannot_exist(monkeypatch):
    assert "File name too long" in message("a" * 300 + ".csv")
    assert "cannot be opened" in message("a\0.csv")
    monkeypatch.delenv("HOME", raising=False)
    assert "write the whole path" in message("~nobody-of-this-name/a.csv")


@pytest.mark.parametrize("column", ["label\n0\n-1\n3\n-1\n", "label\n0\n\n3\n\n"])
def test_labels_of_minus_one_are_missing_in_tables(column, tmp_path):
    rows = zip(("id", "a", "b", "c", "d"), column.split("\n"), strict=False)
    (tmp_path / "nodes.csv").write_text("".join(f"{name},{value}\n" for name, value in rows))
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    assert load(tmp_path).y.tolist() == [0, -1, 1, -1]


def test_labels_of_minus_one_are_missing_and_classes_that_no_node_has_do_not_count(tmp_path):
    labels = np.array([5, 2, -1] * 4)
    dataset = load(write_npz(tmp_path / "graph.npz", labels=labels))
    assert dataset.y.tolist() == [1, 0, -1] * 4
    assert dataset.n_classes == 2
    assert load(write_npz(tmp_path / "graph.npz", labels=np.full(12, -1))).y is None
    assert "-1 for nodes without a label" in message(write_npz(tmp_path / "graph.npz", labels=labels - 1))
