"""A folder or a file of a user → Dataset."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from afgrl.data.dataset import Dataset
from afgrl.data.files.formats import GRAPH_SUFFIXES, load_features, load_graph_file
from afgrl.data.files.options import Options
from afgrl.data.files.read import TABLE_SUFFIXES, read_table, suffix
from afgrl.data.files.roles import has_ends
from afgrl.data.files.tables import Fitted, graph_of_tables
from afgrl.data.notes import Notes
from afgrl.errors import UserError

EDGES = re.compile(r"edge|link|relation|interaction|citation|adjacen|cites", re.IGNORECASE)
NODES = re.compile(r"node|vert|entit|feature|attribute|item|people|person|user|paper|content|points?$", re.IGNORECASE)
FEATURES = re.compile(r"feature|attribute|embedding|^x$", re.IGNORECASE)
ARRAY_SUFFIXES = (".npy", ".npz")


def load_files(
    source: Path, options: Options = Options(), *, fitted: Fitted = None, needs_edges: bool = True
) -> Dataset:
    """A graph from a folder of tables, a table, or a file that holds a graph."""
    if not source.exists():
        raise UserError(f"There is no file or folder {source}.")
    if source.is_file() and (suffix(source) in GRAPH_SUFFIXES or zipfile.is_zipfile(source)):
        return load_graph_file(source, options, fitted)
    nodes, edges, features = _parts(source, options)
    if edges is None and options.knn_graph is None and needs_edges:
        raise UserError(
            f"{source} has no edges; `--knn-graph 15` links every node to the 15 whose features are most alike."
        )
    if edges is not None and options.knn_graph is not None:
        raise UserError(f"{source} has edges ({edges.name}), so --knn-graph, which makes them, is not for it.")
    node_table = read_table(nodes, encoding=options.encoding) if nodes else None
    edge_table = read_table(edges, encoding=options.encoding, edges=True) if edges else None
    matrix = load_features(features) if features else None
    where = (nodes or features or source).name, (edges or source).name
    dataset = graph_of_tables(
        node_table, edge_table, options, features=matrix, fitted=fitted, name=source.stem or source.name, where=where
    )
    files = ", ".join(file.name for file in (nodes, features, edges) if file)
    assert dataset.reading is not None
    first = Notes()
    first.understood(f"Read from {files}.")
    dataset.reading.notes.all[:0] = first.all
    return dataset


def _parts(source: Path, options: Options) -> tuple[Path | None, Path | None, Path | None]:
    """The files of nodes, of edges and of features."""
    told = Path(options.nodes).expanduser() if options.nodes else None
    if source.is_file():
        nodes, edges = (told, source) if told or _is_edges(source, options) else (source, None)
        features = nodes if nodes and suffix(nodes) in ARRAY_SUFFIXES else None
        nodes = None if features else nodes
    else:
        nodes, edges, features = _in_folder(source, options, told)
    return nodes, edges, features


def _is_edges(file: Path, options: Options) -> bool:
    if suffix(file) not in TABLE_SUFFIXES:
        known = ", ".join((*TABLE_SUFFIXES, *GRAPH_SUFFIXES))
        raise UserError(f"The file {file} is of no kind that is read ({known}).")
    if NODES.search(file.stem) and not EDGES.search(file.stem):
        return False
    return bool(EDGES.search(file.stem)) or has_ends(
        read_table(file, encoding=options.encoding, edges=True).slice(0, 1), options
    )


def _in_folder(folder: Path, options: Options, told: Path | None) -> tuple[Path | None, Path | None, Path | None]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    tables = [file for file in files if suffix(file) in TABLE_SUFFIXES]
    arrays = [file for file in files if suffix(file) in ARRAY_SUFFIXES and FEATURES.search(file.stem)]
    edges = [file for file in tables if EDGES.search(file.stem)]
    nodes = [told] if told else [file for file in tables if NODES.search(file.stem) and file not in edges]
    rest = [file for file in tables if file not in (*edges, *nodes)]
    if len(rest) == 1 and len(tables) <= 2:  # of two tables the other one
        (nodes if edges or not _is_edges(rest[0], options) else edges).append(rest[0])
    for what, found in (("edges", edges), ("nodes", nodes), ("features", arrays)):
        if len(found) > 1:
            raise UserError(
                f"The folder {folder} has several files of {what}: {', '.join(file.name for file in found)}; "
                "leave one, or name the file of edges as SOURCE and that of nodes by --nodes."
            )
    if not (edges or nodes or arrays):
        there = f"it has {', '.join(file.name for file in files[:5])}" if files else "it is empty"
        raise UserError(f"The folder {folder} has no table of edges or nodes (edges.csv, nodes.csv); {there}.")
    return _only(nodes), _only(edges), _only(arrays)


def _only(files: list[Path]) -> Path | None:
    return files[0] if files else None
