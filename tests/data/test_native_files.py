"""Arrow's threads never hold an object of Python: at the end of the interpreter they would end the process."""

import gzip
import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from afgrl.data.files import load_files
from afgrl.data.native_files import native_file, native_text
from afgrl.data.spill import Spill
from afgrl.data.tables.read import read_table
from afgrl.data.unpacking import open_unpacked
from afgrl.runs.embeddings import read_parquet, write_parquet
from afgrl.runs.readers import n_rows
from afgrl.runs.readers import read_table as read_run_table

TEXT = "id,name\nn1,Malmö\nn2,Oslo\n"


def test_a_file_whose_name_is_not_text(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    with open(name, "wb") as file:
        file.write(b"hello")
    with native_file(name) as opened:
        assert opened.read() == b"hello"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("kind", ["a file", "gzip", "memory"])
@pytest.mark.parametrize("spilled", [False, True])
def test_text_in_utf8(tmp_path, encoding, kind, spilled):
    content = TEXT.replace("\n", "\r\n").encode(encoding)
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "file.gz").write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))
    path = tmp_path / {"a file": "file", "gzip": "file.gz", "memory": "file"}[kind]
    with io.BytesIO(content) if kind == "memory" else open_unpacked(path) as file:
        text = native_text(file, encoding, Spill(tmp_path) if spilled else None)
        assert not isinstance(text, pa.PythonFile)
        assert text.read().decode("utf-8-sig") == TEXT.replace("\n", "\r\n")
        assert not file.closed


def test_text_that_is_not_in_its_encoding(tmp_path):
    with pytest.raises(UnicodeError):
        native_text(io.BytesIO(b"\xff\xff\xff"), "utf-16")


def test_arrow_gets_no_file_of_python(tmp_path, monkeypatch):
    seen = []

    def watch(owner, name):
        function = getattr(owner, name)

        def watched(source, *args, **kwargs):
            seen.append(f"{name} of {type(source).__name__}")
            return function(source, *args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((pyarrow.csv, "read_csv"), (pyarrow.csv, "open_csv"), (pq, "read_table"),
                        (pq, "read_metadata"), (pq, "read_schema"), (pq, "ParquetFile")):  # fmt: skip
        watch(owner, name)
    (tmp_path / "latin.csv").write_bytes(TEXT.encode("latin-1"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "edges.txt").write_text("# comment\na b\nb c\n")
    read_table(tmp_path / "latin.csv", encoding="latin-1")
    read_table(tmp_path / "packed.csv.gz", spill=Spill(tmp_path))
    load_files(tmp_path / "edges.txt")
    write_parquet(tmp_path / "run.parquet", np.arange(3), np.ones((3, 2)))
    read_parquet(tmp_path / "run.parquet")
    read_run_table(tmp_path / "run.parquet")
    n_rows(tmp_path / "run.parquet")
    read_table(tmp_path / "run.parquet")
    assert {line.split(" of ")[0] for line in seen} == {
        "read_csv", "open_csv", "read_table", "read_metadata", "read_schema", "ParquetFile"
    }  # fmt: skip
    allowed = {"OSFile", "BufferReader", "PosixPath", "WindowsPath"}
    assert {line.split(" of ")[1] for line in seen} <= allowed
