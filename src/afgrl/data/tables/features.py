"""The features of the nodes of tables: encoded columns, given arrays, or structural features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from afgrl.amounts import counted
from afgrl.data.ingest import IngestReport
from afgrl.data.spill import Spill, row_blocks
from afgrl.data.tables.column_encoders import TextColumn
from afgrl.data.tables.column_types import choose_column_types
from afgrl.data.tables.encode import Fitted, TableEncoder
from afgrl.data.tables.options import ReadOptions
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.sparse.layout import compact_features

MAX_FEATURES = 200_000
MAX_SPILLED = 2000  # more features are words and categories, which are smaller as a sparse table in memory


def encode_columns(
    columns: pa.Table, n_listed: int, n: int, fitted: Fitted, options: ReadOptions, report: IngestReport, where: str,
    spill: Spill | None = None,
) -> tuple[Fitted, sp.csr_array | np.ndarray | None]:  # fmt: skip
    """The table encoder, ``fitted`` or fitted on the listed nodes, and the features: [n, f]. Both are None if no column
    becomes a feature; the features are None for ``StructuralFeatures``, which need the edges."""
    table_encoder = fitted or fit_table_encoder(columns.slice(0, n_listed), options, report, where)
    if not isinstance(table_encoder, TableEncoder):
        return table_encoder, None
    if not n_listed:  # there is no node table
        return table_encoder, sp.csr_array((n, len(table_encoder.names)))
    if spill is not None and len(table_encoder.names) <= MAX_SPILLED:
        return table_encoder, _encode_on_disk(table_encoder, columns, report, where, spill)
    return table_encoder, table_encoder.encode(columns, report, where)


def _encode_on_disk(
    table_encoder: TableEncoder, columns: pa.Table, report: IngestReport, where: str, spill: Spill
) -> np.ndarray:
    """The same features, dense and in a file: column after column, then turned into rows."""
    n, f = columns.num_rows, len(table_encoder.names)
    by_column = spill.array((block.toarray().T for block in table_encoder.blocks(columns, report, where)), (f, n))
    return spill.array((by_column[:, rows].T for rows in row_blocks(n)), (n, f))


def fit_table_encoder(columns: pa.Table, options: ReadOptions, report: IngestReport, where: str) -> TableEncoder | None:
    """None if no column becomes a feature. The name in ``options`` is the column that was chosen."""
    column_types = choose_column_types(columns, options.column_types, report, where, shown=options.name)
    if options.text_model is not None and TextColumn.kind not in column_types.values():
        report.warning(f"No column of {where} is text, so --text-model has no effect; use --column NAME=text.")
    table_encoder = TableEncoder.fit(columns, column_types, report, where, text_model=options.text_model)
    n_features = len(table_encoder.names)
    if n_features > MAX_FEATURES:
        raise UserError(
            f"The columns of {where} become {counted(n_features, 'feature')}; at most {MAX_FEATURES:,} are possible."
        )
    return table_encoder if n_features else None


def given_features(
    features: Any, n_listed: int, n: int, where: str, spill: Spill | None = None
) -> sp.csr_array | np.ndarray:
    """The features of the listed nodes, and zeros for those that occur only in edges: [n, f]."""
    if features.ndim != 2:
        raise UserError(f"The features must have shape [nodes, features], but their shape is {tuple(features.shape)}.")
    if features.shape[0] != n_listed:
        raise UserError(
            f"The features have {counted(features.shape[0], 'row')}, but {where} has {counted(n_listed, 'node')}."
        )
    if n == n_listed:
        return features
    is_sparse = sp.issparse(features)
    if is_sparse:
        zeros = sp.csr_array((n - n_listed, features.shape[1]), dtype=np.float32)
        return sp.csr_array(sp.vstack([sp.csr_array(features), zeros]))
    empty = np.zeros((n - n_listed, features.shape[1]), dtype=np.float32)
    if spill is None:
        return np.concatenate([features.astype(np.float32), empty])
    return spill.array([*(features[rows] for rows in row_blocks(n_listed)), empty], (n, features.shape[1]))


def structural_features(
    edge_index: np.ndarray, ids: np.ndarray, fitted: Fitted, report: IngestReport
) -> tuple[StructuralFeatures, np.ndarray]:
    if not edge_index.shape[1]:
        raise UserError("The source has neither features nor edges, so there is nothing to learn from.")
    undirected = Graph(torch.ones(len(ids), 1), torch.from_numpy(edge_index)).edge_index.numpy()
    structure = fitted if isinstance(fitted, StructuralFeatures) else StructuralFeatures.fit(undirected, ids)
    report.info("No features found; structural features are used: degrees, PageRank and the position in the graph.")
    return structure, structure.encode(undirected, ids)


def nearest_neighbor_edges(x: Any, k: int, report: IngestReport) -> np.ndarray:
    """Edges from each node to the k others with the highest cosine similarity of features: [2, n · k] int64."""
    if x is None:
        raise UserError("A nearest-neighbor graph needs features, but the source has none.")
    rows = compact_features(x).to_dense()
    if not 1 <= k < len(rows):
        raise UserError(f"--knn-graph must be from 1 to {len(rows) - 1} (the number of other nodes), not {k}.")
    neighbors = nearest_neighbors(rows, rows, k, diagonal="drop").index.numpy()
    report.info(f"Each node is linked to its {k} nearest neighbors by cosine similarity of features.")
    return np.stack([np.repeat(np.arange(len(rows)), k), neighbors.reshape(-1)])
