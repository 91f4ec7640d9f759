"""The features of nodes of several types: one block of columns per type, 0 for nodes of other types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from afgrl.data.ingest import IngestReport
from afgrl.data.tables.encode import TableEncoder, TypedTableEncoder
from afgrl.data.tables.features import fit_table_encoder
from afgrl.data.tables.nodes import NodeTable
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError


def encode_types(
    nodes: Mapping[str, NodeTable], types: list[str], codes: np.ndarray, fitted: TypedTableEncoder | None,
    options: ReadOptions, report: IngestReport, where: Mapping[str, str],
) -> tuple[dict[str, TableEncoder], sp.csr_array]:  # fmt: skip
    """The encoder of each type, ``fitted`` or fitted on its table, and the features: [n, f]. ``codes`` [n] is the type
    of each node, -1 if it is unknown."""
    if fitted is None:
        _check_column_options(nodes, options)
    used = {t: table.columns.drop_columns([table.label] if table.label else []) for t, table in nodes.items()}
    encoders: dict[str, TableEncoder] = {}
    blocks: list[Any] = [sp.csr_array((int((codes == -1).sum()), 0), dtype=np.float32)]
    for code, node_type in enumerate(types):
        encoder = fitted.types[node_type] if fitted else None
        if encoder is None:
            own = replace(options.of_table(used[node_type].column_names, node_type), name=nodes[node_type].name)
            encoder = fit_table_encoder(used[node_type], own, report, where[node_type]) or TableEncoder(())
        encoders[node_type] = encoder
        n = int((codes == code).sum())
        if node_type in nodes and encoder.parts:
            rows = replace(nodes[node_type], columns=used[node_type]).extended(n)
            blocks.append(encoder.encode(rows, report, where[node_type]))
        else:
            blocks.append(sp.csr_array((n, len(encoder.names)), dtype=np.float32))
    order = np.argsort(codes, kind="stable")  # unknown types, then type by type, in each the listed nodes first
    place = sp.csr_array((np.ones(len(order), np.float32), (order, np.arange(len(order)))))
    return encoders, sp.csr_array(place @ sp.block_diag(blocks, format="csr"))


def _check_column_options(nodes: Mapping[str, NodeTable], options: ReadOptions) -> None:
    """A column whose type is given must be in one of the tables."""
    columns = {(t, column) for t, table in nodes.items() for column in table.columns.column_names}
    known = {name for t, column in columns for name in (column, f"{t}.{column}")}
    missing = next((name for name in options.column_types if name not in known), None)
    if missing is not None:
        raise UserError(f"There is no column {missing!r} in any node table.")
