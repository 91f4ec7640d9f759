"""Tables of nodes and edges → a graph, with a stated rule for all that tables of people have.

The rules: an edge counts in both directions, and once; an edge to itself does not count, nor one with an end missing,
nor one of weight 0 or below. Weights of the same edge are added. A node that occurs only in edges is a node without
features; one without edges stays. Whatever a rule did is noted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
import torch

from afgrl.data.dataset import Dataset, Reading
from afgrl.data.features import compact
from afgrl.data.files.edges import ends_of, numbered
from afgrl.data.files.encode import Encoder
from afgrl.data.files.ids import known_cells, names_of, own_ids, without_repetitions
from afgrl.data.files.kinds import choose_kinds
from afgrl.data.files.options import Options
from afgrl.data.files.roles import columns_of, is_nameless, label_column
from afgrl.data.files.structure import Structure
from afgrl.data.notes import Notes
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.knn import knn

MOST_FEATURES = 200_000
Fitted = Encoder | Structure | None  # how a training made its features


def graph_of_tables(
    nodes: pa.Table | None,
    edges: pa.Table | None,
    options: Options = Options(),
    *,
    features: Any = None,
    fitted: Fitted = None,
    name: str = "tables",
    where: tuple[str, str] = ("the table of nodes", "the table of edges"),
) -> Dataset:
    """A dataset of the tables; ``features`` [rows, f] stands for columns, ``fitted`` is the encoding of a training."""
    notes = Notes()
    taken = fitted.columns if isinstance(fitted, Encoder) else ()
    id, ends_in = columns_of(nodes, edges, options, notes, where, taken=taken)
    own, columns, label = _nodes(nodes, id, options, notes, where[0])
    if own is None and features is not None:
        own = pa.chunked_array([pa.array([str(i) for i in range(features.shape[0])])])
    ends, weight = None, None
    if edges is not None and ends_in is not None:
        ends, weight = ends_of(edges, ends_in, own, options, notes, where[1])
    ids, edge_index = numbered(own, ends, notes, where, weighted=weight is not None)
    n_own = 0 if own is None else len(own)
    columns = _with_rows(columns, len(ids))
    y, classes = _classes(columns[label], notes, where[0]) if label else (None, None)
    used = columns.drop_columns([label]) if label else columns
    encoder: Fitted = None
    x: Any = None
    if features is not None:
        x = _given(features, n_own, len(ids), where[0])
    else:
        encoder = fitted or _fit_encoder(used.slice(0, n_own), options, notes, where[0])
        if isinstance(encoder, Encoder) and nodes is None:  # nodes that only edges name have no columns at all
            x = sp.csr_array((len(ids), len(encoder.names)))
        elif isinstance(encoder, Encoder):
            x = encoder.encode(used, notes, where[0])
    if options.knn_graph is not None:
        if x is None:
            raise UserError("A graph of nearest nodes needs features, but there are none.")
        edge_index = _nearest(x, options.knn_graph, notes)
    names = own_ids(ids)
    if x is None:
        encoder, x = _structural(edge_index, names, fitted, notes)
    graph = Graph(
        compact(x),
        torch.from_numpy(edge_index),
        names,
        edge_weight=None if weight is None else torch.from_numpy(weight),
        encoder=encoder,
    )
    known = pa.table({"id": pa.array(names)} | {column: columns[column] for column in columns.column_names})
    reading = Reading(known, n_own, label, encoder, classes, notes)
    return Dataset(name, graph, y, reading=reading)


def _nodes(
    table: pa.Table | None, column: str | None, options: Options, notes: Notes, where: str
) -> tuple[pa.ChunkedArray | None, pa.Table, str | None]:
    """The ids as text, the other columns, and which of these is the label."""
    if table is None or column is None:
        return None, pa.table({}), None
    nameless = [name for name in table.column_names if is_nameless(name) and name != column]
    if nameless:
        notes.understood(f"A column of {where} without a name, such as the index of pandas, is left out.")
        table = table.drop_columns(nameless)
    ids = names_of(table[column])
    if ids.null_count:
        first = ids.is_null().to_numpy().argmax() + 1
        raise UserError(f"Rows of {where} without an id: {ids.null_count:,}, row {first} first; every node needs one.")
    table, ids = without_repetitions(table.drop_columns([column]), ids, notes, where)
    table = pa.table({"id (column)" if name == "id" else name: known_cells(table[name]) for name in table.column_names})
    return ids, table, label_column(table, options, notes, where)


def _with_rows(columns: pa.Table, n: int) -> pa.Table:
    """With empty rows for the nodes that occur only in edges."""
    if not columns.num_columns:
        return pa.table({})
    lacking = n - columns.num_rows
    if not lacking:
        return columns
    empty = {field.name: pa.nulls(lacking, field.type) for field in columns.schema}
    return pa.concat_tables([columns, pa.table(empty, schema=columns.schema)])


def _classes(column: pa.ChunkedArray, notes: Notes, where: str) -> tuple[np.ndarray, list[str]]:
    """The class of each node, -1 where it is unknown, and the classes' names."""
    text = names_of(column)
    names = sorted(text.drop_null().unique().to_pylist(), key=_in_order)
    if not names:
        raise UserError(f"The label of {where} is empty in every row.")
    y = pc.index_in(text, value_set=pa.array(names)).fill_null(-1).to_numpy().astype(np.int64)
    if text.null_count:
        notes.understood(f"Nodes without a label: {text.null_count:,} of {len(text):,}.")
    return y, names


def _in_order(name: str) -> tuple[int, str]:
    """Numbers by their size before words."""
    return (len(name), name) if name.isdigit() else (99, name)


def _fit_encoder(columns: pa.Table, options: Options, notes: Notes, where: str) -> Encoder | None:
    kinds = choose_kinds(columns, options.kinds, notes, where)
    encoder = Encoder.fit(columns, kinds)
    width = len(encoder.names)
    if width > MOST_FEATURES:
        raise UserError(f"The columns of {where} make {width:,} features, and at most {MOST_FEATURES:,} are possible.")
    return encoder if width else None


def _given(features: Any, n_own: int, n: int, where: str) -> sp.csr_array | np.ndarray:
    if features.ndim != 2:
        raise UserError(f"The features must be a table [nodes, features], but their shape is {tuple(features.shape)}.")
    if features.shape[0] != n_own:
        raise UserError(f"There are {features.shape[0]:,} rows of features, but {where} has {n_own:,} nodes.")
    if n == n_own:
        return features
    empty = sp.csr_array((n - n_own, features.shape[1]), dtype=np.float32)
    return sp.csr_array(sp.vstack([sp.csr_array(features), empty]))


def _structural(edge_index: np.ndarray, ids: np.ndarray, fitted: Fitted, notes: Notes) -> tuple[Structure, np.ndarray]:
    if not edge_index.shape[1]:
        raise UserError("There are neither features nor edges, so there is nothing to learn from.")
    both = Graph(torch.ones(len(ids), 1), torch.from_numpy(edge_index)).edge_index.numpy()
    structure = fitted if isinstance(fitted, Structure) else Structure.fit(both, ids)
    notes.understood("There are no features, so structural ones are made: degrees, PageRank and where a node lies.")
    return structure, structure.encode(both, ids)


def _nearest(x: Any, k: int, notes: Notes) -> np.ndarray:
    rows = compact(x).to_dense()
    if not 1 <= k < len(rows):
        raise UserError(f"--knn-graph must be from 1 to {len(rows) - 1}, the number of other nodes, not {k}.")
    near = knn(rows, rows, k, diagonal="drop").index.numpy()
    notes.understood(f"Every node is linked to the {k} whose features are most alike by cosine.")
    return np.stack([np.repeat(np.arange(len(rows)), k), near.reshape(-1)])
