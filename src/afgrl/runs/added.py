"""Nodes added to a run after training. Each addition is a separate file; what the run was trained on stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.runs.embeddings import column_vectors, vector_column
from afgrl.runs.files import write_table
from afgrl.runs.folder import Run
from afgrl.runs.readers import check, read_table, reading

PATTERN = "added-*.parquet"
PARTS = ("embedding", "linked", "words")  # the last columns of the file; an earlier version had only the first
LISTS = pa.list_(pa.string())
TRAINED = "training"  # in the column ``added``: a node that the run was trained on


@dataclass(frozen=True, eq=False)
class Addition:
    """Nodes that were embedded by the trained method and stored in its run."""

    name: str  # of the source they came from
    nodes: pa.Table  # ``id`` and the columns of the run's own nodes, with their types
    vectors: np.ndarray  # [m, d] float32
    linked: pa.ChunkedArray  # [m] lists of the ids, as text, of nodes that an edge leads to
    words: pa.ChunkedArray  # [m] lists of the names of words or features that a node has

    @property
    def ids(self) -> np.ndarray:
        ids: np.ndarray = self.nodes["id"].to_numpy()
        return ids


def save_addition(run: Run, addition: Addition) -> None:
    """Write one file, in one rename; an addition of the same name is replaced."""
    table = addition.nodes
    parts = (vector_column(addition.vectors), addition.linked, addition.words)
    for name, part in zip(PARTS, parts, strict=True):
        table = table.append_column(name if name not in addition.nodes.column_names else f"afgrl {name}", part)
    write_table(_file(run, addition.name), table)


def additions(run: Run) -> list[Addition]:
    """What was added to a run, in the order of the names."""
    files = sorted(run.path.glob(PATTERN))
    return [_read(run, file) for file in files]


def remove_addition(run: Run, name: str) -> None:
    file = _file(run, name)
    if not file.is_file():
        names = [addition.name for addition in additions(run)]
        if not names:
            raise UserError(f"The run {str(run.path)!r} has no added nodes.")
        raise unknown("addition", addition_name(name), names)
    file.unlink()


def all_ids(run: Run) -> np.ndarray:
    """The ids of the nodes the run was trained on, then those of the added ones."""
    return _joined_ids(run.embedding_ids(), additions(run))


def all_vectors(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The ids and vectors of the same nodes."""
    ids, vectors = run.embedding()
    added = additions(run)
    if not added:
        return ids, vectors
    return _joined_ids(ids, added), np.concatenate([vectors, *(addition.vectors for addition in added)])


def vector_groups(run: Run) -> Iterator[np.ndarray]:
    """The same vectors in groups of rows, of which one is in memory at a time."""
    yield from run.embedding_groups()
    yield from (addition.vectors for addition in additions(run))


def vectors_of(run: Run, rows: np.ndarray) -> np.ndarray:
    """The vectors of some of these nodes, by their row numbers: [len(rows), d]."""
    n, added = len(run.embedding_ids()), additions(run)
    vectors = run.embedding_rows(np.minimum(rows, n - 1))
    if added:
        later = rows >= n
        vectors[later] = np.concatenate([addition.vectors for addition in added])[rows[later] - n]
    return vectors


def _joined_ids(ids: np.ndarray, added: list[Addition]) -> np.ndarray:
    every = [ids, *(addition.ids for addition in added)]
    numbers = all(part.dtype.kind in "iu" for part in every)
    return np.concatenate(every if numbers or not added else [as_text(part) for part in every])


def all_nodes(run: Run) -> pa.Table:
    """``id`` and the columns of the same nodes, in the same order; if any were added, the column ``added`` says by
    which addition."""
    nodes, added = run.nodes(), additions(run)
    if not added:
        return nodes
    ids = _joined_ids(run.embedding_ids(), added)
    own = pa.table({name: nodes[name] for name in nodes.column_names[1:]})
    parts = [own, *(addition.nodes.drop_columns(["id"]) for addition in added)]
    columns = pa.concat_tables(parts) if own.num_columns else None
    origins = [TRAINED] * nodes.num_rows + [addition.name for addition in added for _ in addition.ids]
    table = {"id": pa.array(ids)} | ({name: columns[name] for name in columns.column_names} if columns else {})
    name = "added" if "added" not in table else "afgrl added"
    return pa.table(table | {name: pa.array(origins, pa.string())})


def all_names(run: Run) -> tuple[str, pa.ChunkedArray] | None:
    """The column of names shown beside the ids, and the names of the same nodes as text; None without names."""
    found = run.names()
    return None if found is None else (found[0], all_nodes(run)[found[0]].cast(pa.string()))


def addition_name(name: str) -> str:
    """The name of a source as text, which Arrow can store: in a strict C locale, a letter such as ü is bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _file(run: Run, name: str) -> Path:
    return run.path / os.fsdecode(f"added-{addition_name(name)}.parquet".encode())


def _read(run: Run, file: Path) -> Addition:
    table, own = read_table(file), run.nodes()
    with reading(file):
        check(table.num_rows > 0 and table["id"].null_count == 0, "it has no ids")
        n_own, n_parts = own.num_columns, table.num_columns - own.num_columns
        check(n_parts in (1, len(PARTS)), "its columns are not those of the run")
        nodes, vectors = table.select(range(n_own)), column_vectors(table.column(n_own))
        check(nodes.column_names == own.column_names, "its columns are not those of the run")
        check(vectors.shape[1] == run.embedding_shape[1], f"its vectors have the width {vectors.shape[1]}")
        types = [own.schema.field(name).type for name in own.column_names[1:]]
        check(types == [nodes.schema.field(name).type for name in own.column_names[1:]], "its columns have other types")
        linked, words = (_lists(table, n_own + i if n_parts > 1 else None) for i in (1, 2))
        return Addition(addition_name(file.stem.removeprefix("added-")), nodes, vectors, linked, words)


def _lists(table: pa.Table, column: int | None) -> pa.ChunkedArray:
    """A column of lists; lists that an earlier version did not store are empty."""
    if column is None:
        return pa.chunked_array([pa.array([[]] * table.num_rows, LISTS)])
    kind = table.column(column).type
    lists = pa.types.is_list(kind) and kind.value_type == LISTS.value_type
    check(lists, f"its column {table.column_names[column]!r} has no lists of texts")
    return table.column(column)
