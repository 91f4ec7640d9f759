"""Small valid inputs, one per format, from which the fuzzer makes broken ones."""

import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch

from tests.data.small_files import small_arrays

NODES = "id,age,city,since,label\n" + "".join(
    f"n{i},{20 + i},{('Rome', 'Oslo', 'Lima')[i % 3]},20{10 + i}-01-02,{i % 2}\n" for i in range(12)
)
EDGES = "source,target,weight\n" + "".join(f"n{i},n{(i + 1) % 12},{i / 2}\n" for i in range(12))
GRAPHML = """<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="age" attr.type="double"/><graph edgedefault="undirected">
<node id="a"><data key="d0">3.5</data></node><node id="b"><data key="d0">4</data></node><node id="c"/>
<edge source="a" target="b"/><edge source="b" target="c"/></graph></graphml>"""
GEXF = """<?xml version="1.0" encoding="utf-8"?><gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph>
<attributes class="node"><attribute id="0" title="age" type="float"/></attributes><nodes>
<node id="a" label="A"><attvalues><attvalue for="0" value="3"/></attvalues></node><node id="b" label="B"/></nodes>
<edges><edge id="0" source="a" target="b" weight="2"/></edges></graph></gexf>"""
SOURCE = "source.name"  # in the folder of a saved case
TOML = "steps = 3\nn_components = 8\nlearning_rate = 0.01\n[other]\nlist = [1, 2]\n"


@dataclass(frozen=True)
class Case:
    """Files of one input, and which of them is the source; "." is their folder, empty if it is a settings file."""

    files: Mapping[str, bytes]
    source: str = "."


def save_case(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    (folder / SOURCE).write_text(case.source)


def load_case(folder: Path) -> Case:
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != SOURCE}
    return Case(files, (folder / SOURCE).read_text())


def corpus() -> dict[str, Callable[[], Case]]:
    return {
        "csv": lambda: Case({"nodes.csv": NODES.encode(), "edges.csv": EDGES.encode()}),
        "tsv": lambda: Case({"edges.tsv": EDGES.replace(",", "\t").encode()}, "edges.tsv"),
        "edge list": lambda: Case({"graph.edges": b"# comment\n1 2\n2 3\n3 1\n"}, "graph.edges"),
        "gz": lambda: Case({"nodes.csv.gz": gzip.compress(NODES.encode()), "edges.csv": EDGES.encode()}),
        "parquet": lambda: Case({"nodes.parquet": parquet(NODES), "edges.parquet": parquet(EDGES)}),
        "graphml": lambda: Case({"graph.graphml": GRAPHML.encode()}, "graph.graphml"),
        "gexf": lambda: Case({"graph.gexf": GEXF.encode()}, "graph.gexf"),
        "npz of a graph": lambda: Case({"graph.npz": npz(small_arrays())}, "graph.npz"),
        "npz of an adjacency": lambda: Case({"graph.npz": npz(scipy_arrays(np.eye(12, k=1)))}, "graph.npz"),
        "npz of features": lambda: with_features("features.npz", npz(scipy_arrays(np.eye(12)))),
        "npy of features": lambda: with_features("features.npy", npy(np.eye(12, dtype=np.float32))),
        "npy folder": lambda: Case({f"{name}.npy": npy(array) for name, array in array_folder().items()}),
        "pt": lambda: Case({"graph.pt": pt(tensors())}, "graph.pt"),
        "toml": lambda: Case({"settings.toml": TOML.encode()}, ""),
    }


def with_features(name: str, content: bytes) -> Case:
    edges = "source,target\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12))
    return Case({name: content, "edges.csv": edges.encode()})


def parquet(text: str) -> bytes:
    header, *rows = (line.split(",") for line in text.splitlines())
    buffer = io.BytesIO()
    pq.write_table(pa.table(dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))), buffer)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(arrays: Mapping[str, np.ndarray], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", npy(array))
    return buffer.getvalue()


def scipy_arrays(matrix: np.ndarray) -> dict[str, np.ndarray]:
    csr = sp.csr_array(matrix)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    return {"format": np.array(b"csr"), **parts}


def array_folder() -> dict[str, np.ndarray]:
    ring = np.arange(12)
    return {
        "features": np.eye(12, dtype=np.float32),
        "edges": np.stack([ring, np.roll(ring, -1)], axis=1),
        "ids": np.array([f"n{i}" for i in ring]),
        "labels": ring % 3,
        "weights": 1 + ring / 2,
    }


def tensors() -> dict[str, object]:
    ring = torch.arange(12)
    return {
        "x": torch.eye(12),
        "edge_index": torch.stack([ring, ring.roll(-1)]),
        "y": ring % 3,
        "edge_weight": torch.rand(12, generator=torch.Generator().manual_seed(0)),
    }


def pt(values: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(values, buffer)
    return buffer.getvalue()
