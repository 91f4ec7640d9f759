"""Real graphs as a user would have them: tables with string ids, or an .npz file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_to_scipy
from afgrl.data import Dataset, load
from afgrl.data.benchmarks.raw import user_folder
from afgrl.errors import UserError
from afgrl.graph import Graph

AS_TEXT = ("pubmed", "cs", "physics", "wordnet")  # bags of words in one text column; the others: a column per feature


# Folders of raw files of graphs that PyG does not have.
FILES = {
    "acm": "ACM", "blogcatalog": "BlogCatalog", "uai2010": "UAI2010", "wordnet": "WordNet", "debian": "Debian",
    "genes": "Genes",
}  # fmt: skip


def dataset(name: str) -> Dataset:
    return load(npz_file(name) if name in FILES else name, splits="random")


def npz_file(graph: str, data_dir: str | None = None) -> Path:
    """The one .npz file in the raw folder of a graph that is no public dataset of PyG."""
    name, folder = FILES[graph], Path(data_dir) if data_dir else user_folder()
    if folder is None:
        raise UserError(f"{name} is read from the folder that AFGRL_DATA or --data-dir names, and neither is set.")
    files = sorted((folder / name / "raw").glob("*.npz"))
    if len(files) != 1:
        raise UserError(f"The folder {str(folder / name / 'raw')!r} must have one .npz file, but has {len(files)}.")
    return files[0]


def save_npz_graph(file: Path, graph: Graph, y: np.ndarray) -> None:
    """A graph with edge weights and labels in the layout of gnn-benchmark."""
    weight = np.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight.numpy()
    adjacency = sp.csr_array((weight, tuple(graph.edge_index.numpy())), shape=(graph.n, graph.n))
    arrays = {"labels": y}
    for prefix, matrix in (("adj", adjacency), ("attr", features(graph))):
        arrays |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    np.savez(file, **arrays)


def features(graph: Graph) -> sp.csr_array:
    return csr_to_scipy(graph.x) if graph.x.layout == torch.sparse_csr else sp.csr_array(graph.x.numpy())


def write_tables(name: str, folder: Path) -> None:
    """nodes.csv and edges.csv of a graph."""
    source = dataset(name)
    assert source.y is not None
    folder.mkdir(parents=True, exist_ok=True)
    table, as_text = features(source.graph), name in AS_TEXT
    ids = [f"{name}-{i:06d}" for i in range(source.graph.n)]
    with open(folder / "nodes.csv", "w", newline="") as file:
        rows = csv.writer(file)
        columns = ["words"] if as_text else [f"word {i}" for i in range(table.shape[1])]
        rows.writerow(["id", *columns, "label"])
        for i, label in enumerate(source.y):
            rows.writerow([ids[i], *_cells(table, i, as_text=as_text), f"class {label}"])
    with open(folder / "edges.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        rows.writerows((ids[a], ids[b]) for a, b in source.graph.edge_index.T.tolist() if a < b)


def _cells(table: sp.csr_array, i: int, *, as_text: bool) -> list[Any]:
    begin, end = table.indptr[i : i + 2]
    if as_text:
        words = zip(table.indices[begin:end], table.data[begin:end], strict=True)
        return [" ".join(f"w{word}" for word, count in words for _ in range(max(1, int(count))))]
    row = np.zeros(table.shape[1])
    row[table.indices[begin:end]] = table.data[begin:end]
    return [f"{value:g}" for value in row]
