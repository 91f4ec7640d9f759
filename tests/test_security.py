"""No file can run code: every loader gets files whose unpickling would create a folder."""

import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from afgrl import data
from afgrl.analysis.neighbors import find_similar
from afgrl.errors import UserError
from afgrl.runs.folder import Run
from tests.sample_runs import make_run

ROOT = Path(__file__).parent.parent


class Payload:
    """Unpickling it creates the folder."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


def object_array(marker):
    array = np.empty(4, dtype=object)
    array[:] = [Payload(marker)] * 4
    return array


def parquet_with_payload(marker, table):
    """Early versions of pyarrow unpickled the types of such columns (CVE-2023-47248)."""
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Payload(marker)),
    }
    schema = pa.schema([field.with_metadata(metadata) for field in table.schema])
    return pa.Table.from_arrays(table.columns, schema=schema)


# Each writes one file of a source; where pickles are possible, the payload is behind the interface that unpickles it.


def raw_pickle(file, marker):
    file.write_bytes(pickle.dumps(Payload(marker), protocol=2))  # the version that torch.load expects


def torch_payload(file, marker):
    torch.save({"edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]), "x": Payload(marker)}, file)


def torch_payload_of_old_format(file, marker):
    content = {"edge_index": torch.tensor([[0], [1]]), "x": Payload(marker)}
    torch.save(content, file, _use_new_zipfile_serialization=False)


def numpy_payload(file, marker):
    np.save(file, object_array(marker), allow_pickle=True)


def graph_payload(file, marker):
    edges = {"adj_data": np.ones(3), "adj_indices": np.array([1, 2, 3]), "adj_indptr": np.array([0, 1, 2, 3, 3])}
    np.savez(file, **edges, adj_shape=np.array([4, 4]), attr_matrix=object_array(marker), labels=object_array(marker))


def features_payload(file, marker):
    np.savez(file, format="csr", shape=(4, 4), data=object_array(marker), indices=np.arange(4), indptr=np.arange(5))


def parquet_payload(file, marker):
    pq.write_table(parquet_with_payload(marker, pa.table({"id": [0, 1, 2, 3], "age": [1, 2, 3, 4]})), file)


SOURCES = [
    ("graph.pt", torch_payload), ("graph.pt", torch_payload_of_old_format), ("graph.pt", raw_pickle),
    ("graph.npz", graph_payload), ("graph.npz", raw_pickle), ("graph.graphml", raw_pickle),
    ("graph.gpickle", raw_pickle), ("features.npy", numpy_payload), ("features.npy", raw_pickle),
    ("features.npz", features_payload), ("nodes.parquet", parquet_payload), ("nodes.parquet", raw_pickle),
    ("nodes.csv", raw_pickle), ("nodes.csv.gz", raw_pickle),
]  # fmt: skip


def test_the_payload_works(marker, tmp_path):
    """Otherwise the other tests would show nothing."""
    pickle.loads(pickle.dumps(Payload(marker)))
    assert marker.is_dir()
    for write, file, load in (
        (torch_payload, tmp_path / "graph.pt", lambda file: torch.load(file, weights_only=False)),
        (numpy_payload, tmp_path / "features.npy", lambda file: np.load(file, allow_pickle=True)),
        (graph_payload, tmp_path / "graph.npz", lambda file: np.load(file, allow_pickle=True)["labels"]),
    ):
        marker.rmdir()
        write(file, marker)
        load(file)
        assert marker.is_dir(), file


@pytest.mark.parametrize(("name", "write"), SOURCES, ids=lambda value: value if isinstance(value, str) else None)
def test_no_source_runs_code(tmp_path, marker, name, write):
    folder = tmp_path / "source"
    folder.mkdir()
    write(folder / name, marker)
    is_graph = name.startswith("graph")
    if not is_graph:
        (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    source = folder / name if is_graph else folder
    if write is parquet_payload:
        assert data.load(source).graph.n == 4  # the column is read as the plain numbers it contains
    else:
        with pytest.raises(UserError):
            data.load(source)
    assert not marker.exists()


RUN_FILES = [
    ("checkpoint.pt", torch_payload), ("checkpoint.pt", raw_pickle), ("projection-tsne.npy", numpy_payload),
    ("splits.npz", graph_payload), ("graph.safetensors", raw_pickle), ("nodes.parquet", parquet_payload),
    ("nodes.parquet", raw_pickle), ("embeddings.parquet", parquet_payload), ("embeddings.parquet", raw_pickle),
    ("model.safetensors", raw_pickle), ("config.toml", raw_pickle), ("clusters.parquet", raw_pickle),
    ("index.faiss", raw_pickle), ("model.json", raw_pickle), ("scores.json", raw_pickle),
]  # fmt: skip


@pytest.mark.parametrize(("name", "write"), RUN_FILES, ids=lambda value: value if isinstance(value, str) else None)
def test_no_file_of_a_run_runs_code(tmp_path, marker, name, write):
    path = make_run(tmp_path / "run", 4).path
    if name == "index.faiss":
        pytest.importorskip("faiss", reason="faiss is not installed")
        find_similar(Run.open(path), ["node-000"], 2, index=True)
        assert (path / name).is_file()
    write(path / name, marker)
    reads = (
        lambda run: run.checkpoint(torch.device("cpu")), lambda run: run.projection("tsne"), Run.labels, Run.dataset,
        Run.nodes, Run.embedding, Run.model, Run.clusters, Run.scores, Run.spec, Run.model_description,
        lambda run: find_similar(run, ["node-000"], 2, index=(path / "index.faiss").exists()),
    )  # fmt: skip
    refused = 0
    for read in reads:
        try:
            read(Run.open(path))
        except UserError:
            refused += 1
    assert refused > 0 or write is parquet_payload
    assert not marker.exists()


def test_a_pickle_inside_an_archive_is_not_read(tmp_path, marker):
    """A .pt file is a zip archive whose member data.pkl names the functions to call."""
    file = tmp_path / "graph.pt"
    torch.save({"edge_index": torch.tensor([[0], [1]])}, file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(tmp_path / "changed.pt", "w") as changed:
        for name in archive.namelist():
            content = pickle.dumps(Payload(marker), protocol=2) if name.endswith("data.pkl") else archive.read(name)
            changed.writestr(name, content)
    with pytest.raises(UserError, match="contains other objects than tensors, which are not loaded"):
        data.load(tmp_path / "changed.pt")
    assert not marker.exists()


def test_the_document_names_the_bundled_javascript():
    text = (ROOT / "docs" / "security.md").read_text()
    [bundled] = (ROOT / "src" / "afgrl" / "report" / "static").glob("*.min.js")
    assert f"`{bundled.name}`" in text
    assert hashlib.sha256(bundled.read_bytes()).hexdigest() in text
    version = re.match(r"/\* plotly\.js ([\d.]+) ", bundled.read_text(encoding="utf-8"))[1]
    assert f"(https://github.com/plotly/plotly.js) {version}," in text


def test_the_licenses_of_the_bundled_packages_are_in_the_wheel(tmp_path):
    """Exactly the packages that the document lists, each with a text."""
    text = (ROOT / "docs" / "security.md").read_text()
    listed = set(", ".join(re.findall(r"^\| inside it \| (.*?) \|", text, re.MULTILINE)).split(", "))
    licenses = (ROOT / "src" / "afgrl" / "report" / "static" / "THIRD-PARTY-LICENSES.txt").read_text(encoding="utf-8")
    head, *sections = licenses.split("-" * 80 + "\n")
    assert "plotly-LICENSE.txt" in head
    found = set()
    for section in sections:
        titles, _, license_text = section.partition("\n\n")
        found |= {re.sub(r" \([\w.-]+\).*", "", title) for title in titles.splitlines()}
        assert len(license_text) > 500
    assert len(found) == 87
    assert found == listed
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = zipfile.ZipFile(wheel).read("afgrl/report/static/THIRD-PARTY-LICENSES.txt")
    assert packed.decode() == licenses


def test_the_raw_files_of_planetoid_run_no_code(tmp_path, marker, monkeypatch):
    from afgrl.data.benchmarks import BENCHMARKS

    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    for file in BENCHMARKS["cora"].raw.under(tmp_path / "data"):
        file.parent.mkdir(parents=True, exist_ok=True)
        raw_pickle(file, marker)
    with pytest.raises(UserError, match="which could run code"):
        data.load("cora", data_dir=tmp_path / "data")
    was_run = marker.exists()
    shutil.rmtree(tmp_path / "data")
    assert not was_run
