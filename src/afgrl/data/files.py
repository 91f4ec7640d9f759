"""A user's folder or file → Dataset."""

from __future__ import annotations

import re
import zipfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from afgrl.data.dataset import Dataset
from afgrl.data.formats.array_folder import is_array_folder, load_array_folder
from afgrl.data.formats.arrays import load_features
from afgrl.data.formats.graph_files import GRAPH_SUFFIXES, load_graph_file
from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill, spilling
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.column_names import looks_like_edges
from afgrl.data.tables.encode import Fitted, TypedTableEncoder
from afgrl.data.tables.node_types import EDGE_FILES, NODE_FILES, TypedTables, sort_tables
from afgrl.data.tables.numbering import check_engine
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.read import TABLE_SUFFIXES, read_table, table_bytes
from afgrl.data.tables.roles import TableNames
from afgrl.data.tables.typed import dataset_from_typed_tables
from afgrl.data.unpacking import file_suffix, home_expanded, is_file_or_folder
from afgrl.errors import UserError

FEATURE_FILES = re.compile(r"feature|attribute|embedding|^x$", re.IGNORECASE)
ARRAY_SUFFIXES = (".npy", ".npz")
LARGE_BYTES = 1 << 30  # tables above this size in total are read by way of the disk


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source that consists of tables."""

    nodes: Path | None = None
    edges: Path | None = None
    features: Path | None = None  # an array

    @property
    def names(self) -> list[str]:
        return [file.name for file in (self.nodes, self.features, self.edges) if file]


def load_files(
    source: Path, options: ReadOptions = ReadOptions(), *, fitted: Fitted = None, needs_edges: bool = True
) -> Dataset:
    """A dataset from a folder of tables, a table, or a file that contains a graph."""
    if not is_file_or_folder(source):
        raise UserError(f"File or folder not found: {source}.")
    if source.is_file() and (file_suffix(source) in GRAPH_SUFFIXES or zipfile.is_zipfile(source)):
        return load_graph_file(source, options, fitted)
    if is_array_folder(source):
        return load_array_folder(source, options)
    typed = _typed_tables(source, options, fitted) if source.is_dir() and options.nodes is None else None
    if typed is not None:
        return _load_typed(source, typed, options, fitted, needs_edges=needs_edges)
    files = _table_file(source, options) if source.is_file() else _files_in_folder(source, options)
    if files.edges is None and options.knn_graph is None and needs_edges:
        raise UserError(
            f"{source} has no edges; use --knn-graph 15 to link each node to its 15 nearest neighbors by features."
        )
    if files.edges is not None and options.knn_graph is not None:
        raise UserError(f"--knn-graph cannot be used with {source}, which has edges ({files.edges.name}).")
    report = IngestReport()
    report.info(f"Files read: {', '.join(files.names)}.")
    with _spilling_if_large(files.nodes, files.edges) as spill:
        return dataset_from_tables(
            read_table(files.nodes, encoding=options.encoding, spill=spill) if files.nodes else None,
            read_table(files.edges, encoding=options.encoding, edges=True, spill=spill) if files.edges else None,
            options,
            features=load_features(files.features, spill) if files.features else None,
            fitted=fitted,
            name=source.stem or source.name,
            names=TableNames((files.nodes or files.features or source).name, (files.edges or source).name),
            report=report,
            spill=spill,
        )


def source_tables(source: Path, options: ReadOptions) -> list[Path]:
    """The tables of a source, before they are opened; empty if it is something else."""
    if not is_file_or_folder(source):
        return []
    files = _visible_files(source) if source.is_dir() else [source]
    tables = [file for file in files if file_suffix(file) in TABLE_SUFFIXES]
    nodes = _given_node_file(options)
    return [*tables, nodes] if tables and nodes and nodes not in tables and is_file_or_folder(nodes) else tables


def large_table_bytes(*files: Path | None) -> int:
    """The size of these tables in memory if they are read by way of the disk; 0 for small ones."""
    size = sum(table_bytes(file) for file in files if file is not None and is_file_or_folder(file))
    return size if size > LARGE_BYTES else 0


def _spilling_if_large(*files: Path | None) -> AbstractContextManager[Spill | None]:
    if not large_table_bytes(*files):
        return nullcontext()
    check_engine()
    return spilling()


def _typed_tables(folder: Path, options: ReadOptions, fitted: Fitted) -> TypedTables | None:
    """The tables of a folder with several node tables, or of one for a model of several node types; None for others."""
    types = list(fitted.types) if isinstance(fitted, TypedTableEncoder) else []
    files = [file for file in _visible_files(folder) if file_suffix(file) in TABLE_SUFFIXES]
    if len(files) < 3 and not types:
        return None
    tables = {}
    for file in files:
        edges = bool(EDGE_FILES.search(file.stem))
        try:
            tables[file] = read_table(file, encoding=options.encoding, edges=edges)
        except UserError:  # perhaps not a table
            if edges or NODE_FILES.search(file.stem):
                raise
    typed = sort_tables(tables, types)
    return typed if types or len(typed.nodes) > 1 else None


def _load_typed(
    folder: Path, tables: TypedTables, options: ReadOptions, fitted: Fitted, *, needs_edges: bool
) -> Dataset:
    if fitted is not None and not isinstance(fitted, TypedTableEncoder):
        raise UserError(
            f"The model was trained on one node table, but {folder} has several: {', '.join(tables.where.values())}."
        )
    if options.knn_graph is not None:
        raise UserError(f"--knn-graph links the rows of one node table, but {folder} has several.")
    if not tables.edges and (needs_edges or not tables.nodes):
        found = ", ".join(tables.where.values()) or "none"
        raise UserError(f"{folder} has no table of edges between its node tables ({found}).")
    report = IngestReport()
    report.info(f"Files read: {', '.join([*tables.where.values(), *tables.edges])}.")
    if tables.ignored:
        report.warning(f"Ignored files of {folder.name}, which no edge table refers to: {', '.join(tables.ignored)}.")
    arrays = [file.name for file in _visible_files(folder) if file_suffix(file) in ARRAY_SUFFIXES]
    if arrays:
        report.warning(
            f"Ignored files of {folder.name}: {', '.join(arrays)}; with several node tables, features are columns of "
            "these tables, numbers or lists."
        )
    return dataset_from_typed_tables(tables, options, fitted=fitted, name=folder.stem or folder.name, report=report)


def _visible_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _table_file(source: Path, options: ReadOptions) -> SourceFiles:
    nodes = _given_node_file(options)
    if nodes is None and not _is_edge_table(source, options):
        return SourceFiles(nodes=source)
    if nodes is not None and file_suffix(nodes) in ARRAY_SUFFIXES:
        return SourceFiles(edges=source, features=nodes)
    return SourceFiles(nodes, source)


def _given_node_file(options: ReadOptions) -> Path | None:
    return home_expanded(options.nodes) if options.nodes else None


def _is_edge_table(file: Path, options: ReadOptions) -> bool:
    if file_suffix(file) not in TABLE_SUFFIXES:
        supported = ", ".join((*TABLE_SUFFIXES, *GRAPH_SUFFIXES))
        raise UserError(f"The file {file} has an unsupported format; supported: {supported}.")
    if NODE_FILES.search(file.stem) and not EDGE_FILES.search(file.stem):
        return False
    if EDGE_FILES.search(file.stem):
        return True
    if options.knn_graph is not None:  # asked for because there are no edges
        return False
    with _spilling_if_large(file) as spill:
        return looks_like_edges(read_table(file, encoding=options.encoding, edges=True, spill=spill), options)


def _files_in_folder(folder: Path, options: ReadOptions) -> SourceFiles:
    files = _visible_files(folder)
    tables = [file for file in files if file_suffix(file) in TABLE_SUFFIXES]
    features = [file for file in files if file_suffix(file) in ARRAY_SUFFIXES and FEATURE_FILES.search(file.stem)]
    edges = [file for file in tables if EDGE_FILES.search(file.stem)]
    given = _given_node_file(options)
    nodes = [given] if given else [file for file in tables if NODE_FILES.search(file.stem) and file not in edges]
    rest = [file for file in tables if file not in (*edges, *nodes)]
    if len(rest) == 1 and len(tables) <= 2:  # the name of the only other table does not tell what it is
        (nodes if edges or not _is_edge_table(rest[0], options) else edges).append(rest[0])
    if not (edges or nodes or features):
        content = f"it contains {', '.join(file.name for file in files[:5])}" if files else "it is empty"
        raise UserError(f"The folder {folder} has no edge or node table (edges.csv, nodes.csv); {content}.")
    return SourceFiles(
        _only(nodes, "node tables", folder), _only(edges, "edge tables", folder),
        _only(features, "feature files", folder),
    )  # fmt: skip


def _only(files: list[Path], what: str, folder: Path) -> Path | None:
    if len(files) > 1:
        raise UserError(
            f"The folder {folder} has several {what}: {', '.join(file.name for file in files)}; keep one, or pass the "
            "edge table as SOURCE and the node table with --nodes."
        )
    return files[0] if files else None
