"""DataFrames of pandas, as the tables that are read from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from afgrl.data.dataset import Dataset
from afgrl.data.files.options import Options
from afgrl.data.files.roles import IDS, INDEX, SOURCES, TARGETS
from afgrl.data.files.tables import Fitted, graph_of_tables
from afgrl.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def graph_of_frames(
    nodes: pd.DataFrame, edges: pd.DataFrame, id: str | None, source: str | None, target: str | None,
    label: str | None, weight: str | None, columns: dict[str, str], fitted: Fitted = None,
) -> Dataset:  # fmt: skip
    from pandas import RangeIndex

    kinds = tuple(f"{name}={kind}" for name, kind in columns.items())
    if _looks_like_edges(nodes) and not _looks_like_edges(edges):
        raise UserError("The first table has the columns of edges; nodes come first, then edges.")
    if id is None and not any(str(name).lower() in IDS for name in nodes.columns):
        # A RangeIndex is but the numbers of the rows, which may be the names all the same.
        given = not isinstance(nodes.index, RangeIndex)
        nodes, id = nodes.rename_axis(INDEX).reset_index(), INDEX if given else None
    options = Options(id=id, source=source, target=target, label=label, weight=weight, columns=kinds)
    return graph_of_tables(_table(nodes, "nodes"), _table(edges, "edges"), options, fitted=fitted)


def _looks_like_edges(frame: pd.DataFrame) -> bool:
    names = {str(name).strip().lower() for name in frame.columns}
    return bool(names & set(SOURCES)) and bool(names & set(TARGETS))


def _table(frame: pd.DataFrame, what: str) -> pa.Table:
    frame = frame.rename(columns=str)
    if frame.empty:
        raise UserError(f"The table of {what} has no rows.")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column of several types
        mixed = {name: column.astype("string") for name, column in frame.items() if column.dtype == object}
        return pa.Table.from_pandas(frame.assign(**mixed), preserve_index=False)
