"""A user's folder or file → Dataset."""

from __future__ import annotations

import re
import zipfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from afgrl.data.dataset import Dataset
from afgrl.data.formats.array_folder import is_array_folder, load_array_folder
from afgrl.data.formats.arrays import load_features
from afgrl.data.formats.graph_files import GRAPH_SUFFIXES, load_graph_file
from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill, spilling
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.column_names import is_numbered
from afgrl.data.tables.csv_format import EmptyTable
from afgrl.data.tables.encode import Fitted, TableEncoder, TypedTableEncoder
from afgrl.data.tables.node_types import EDGE_FILES, NODE_FILES, TypedTables, sort_tables
from afgrl.data.tables.numbering import check_engine
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.read import TABLE_SUFFIXES, check_format, read_table, table_bytes
from afgrl.data.tables.roles import TableNames, looks_like_edges, refers_to
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
    if source.is_file():
        check_format(source)
    if source.is_file() and (file_suffix(source) in GRAPH_SUFFIXES or zipfile.is_zipfile(source)):
        return load_graph_file(source, options, fitted)
    if is_array_folder(source):
        return load_array_folder(source, options)
    typed = _typed_tables(source, options, fitted) if source.is_dir() and options.nodes is None else None
    if typed is not None:
        return _load_typed(source, typed, options, fitted, needs_edges=needs_edges)
    files = _table_file(source, options) if source.is_file() else _files_in_folder(source, options)
    if files.edges is None and options.knn_graph is None and needs_edges:
        raise _without_edges(source, files)
    if files.edges is not None and options.knn_graph is not None:
        raise UserError(f"--knn-graph cannot be used with {source}, which has edges ({files.edges.name}).")
    report = IngestReport()
    report.info(f"Files read: {', '.join(files.names)}.")
    with _spilling_if_large(files.nodes, files.edges) as spill:
        return dataset_from_tables(
            _read_nodes(files, options, fitted, spill),
            _read_edges(files.edges, options, report, spill) if files.edges else None,
            options,
            features=load_features(files.features, spill) if files.features else None,
            fitted=fitted,
            name=source.stem or source.name,
            names=TableNames((files.nodes or files.features or source).name, (files.edges or source).name),
            report=report,
            spill=spill,
        )


def _without_edges(source: Path, files: SourceFiles) -> UserError:
    ends = "--source-column and --target-column name the ends of its edges"
    nearest = "--knn-graph 15 links each node to its 15 nearest neighbors by features"
    if source.is_dir():
        return UserError(f"{source} has no table of edges beside {files.names[0]}; add edges.csv, or {nearest}.")
    if NODE_FILES.search(source.stem):
        return UserError(
            f"{source} is called like a table of nodes; {ends}, --nodes reads it beside a table of edges, or {nearest}."
        )
    return UserError(f"{source} has no edges: no two columns hold ids of each other; {ends}, or {nearest}.")


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
    tables, empty = {}, []
    for file in files:
        edges = bool(EDGE_FILES.search(file.stem))
        try:
            tables[file] = _read_edges(file, options) if edges else read_table(file, encoding=options.encoding)
        except EmptyTable:
            empty.append(file.name)
        except UserError:  # perhaps not a table
            if edges or NODE_FILES.search(file.stem):
                raise
    typed = sort_tables(tables, types, empty)
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
        without_rows = f"; without rows: {', '.join(tables.empty)}" if tables.empty else ""
        raise UserError(f"{folder} has no table of edges between its node tables ({found}){without_rows}.")
    report = IngestReport()
    report.info(f"Files read: {', '.join([*tables.where.values(), *tables.edges])}.")
    if tables.empty:
        report.warning(f"Files without rows, ignored: {', '.join(tables.empty)}.")
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
    if options.source or options.target:
        return True
    if NODE_FILES.search(file.stem) and not EDGE_FILES.search(file.stem):
        return False
    if EDGE_FILES.search(file.stem):
        return True
    if options.knn_graph is not None:  # asked for because there are no edges
        return False
    with _spilling_if_large(file) as spill:
        return looks_like_edges(_read_edges(file, options, spill=spill), options)


def _refers_to(edges: Path, nodes: Path, options: ReadOptions) -> bool:
    """Whether a table has ids of another one."""
    with _spilling_if_large(edges, nodes) as spill:
        listed = read_table(nodes, encoding=options.encoding, spill=spill)
        return refers_to(_read_edges(edges, options, spill=spill), listed)


def _read_nodes(files: SourceFiles, options: ReadOptions, fitted: Fitted, spill: Spill | None) -> pa.Table | None:
    """``header`` is about the only table; new nodes have one if those of the training graph had."""
    if files.nodes is None:
        return None
    had_header = isinstance(fitted, TableEncoder) and not all(map(is_numbered, fitted.columns))
    header = None if files.edges is not None or had_header else options.header
    return read_table(files.nodes, encoding=options.encoding, header=header, spill=spill)


def _read_edges(
    file: Path, options: ReadOptions, report: IngestReport | None = None, spill: Spill | None = None
) -> pa.Table:
    return read_table(file, encoding=options.encoding, edges=True, header=options.header, report=report, spill=spill)


def _files_in_folder(folder: Path, options: ReadOptions) -> SourceFiles:
    files = _visible_files(folder)
    features = [file for file in files if file_suffix(file) in ARRAY_SUFFIXES and FEATURE_FILES.search(file.stem)]
    given = _given_node_file(options)
    tables = [file for file in files if file_suffix(file) in TABLE_SUFFIXES and file != given]
    edges = [file for file in tables if EDGE_FILES.search(file.stem)]
    nodes = [given] if given else [file for file in tables if NODE_FILES.search(file.stem) and file not in edges]
    rest = [file for file in tables if file not in (*edges, *nodes)]
    if len(rest) == 1 and len(tables) <= 2:  # the name of the only other table does not tell what it is
        has_edges = not edges and (given is not None or _lists_edges(rest[0], nodes, options))
        (edges if has_edges else nodes).append(rest[0])
    elif len(rest) == len(tables) == 2 and not given:
        with_edges = [_refers_to(rest[i], rest[1 - i], options) for i in (0, 1)]
        if sum(with_edges) == 1:
            edges, nodes = [rest[with_edges.index(True)]], [rest[with_edges.index(False)]]
    if not (edges or nodes or features):
        content = f"it contains {', '.join(file.name for file in files[:5])}" if files else "it is empty"
        advice = "; pass the table of edges as SOURCE and that of nodes with --nodes" if len(tables) > 1 else ""
        check_format(*files)
        raise UserError(f"The folder {folder} has no edge or node table (edges.csv, nodes.csv); {content}{advice}.")
    return SourceFiles(
        _only(nodes, "node tables", folder), _only(edges, "edge tables", folder),
        _only(features, "feature files", folder),
    )  # fmt: skip


def _lists_edges(file: Path, nodes: list[Path], options: ReadOptions) -> bool:
    """Whether a table beside these node tables, or alone, is one of edges."""
    return _is_edge_table(file, options) or any(_refers_to(file, listed, options) for listed in nodes)


def _only(files: list[Path], what: str, folder: Path) -> Path | None:
    if len(files) > 1:
        raise UserError(
            f"The folder {folder} has several {what}: {', '.join(file.name for file in files)}; keep one, or pass the "
            "edge table as SOURCE and the node table with --nodes."
        )
    return files[0] if files else None
