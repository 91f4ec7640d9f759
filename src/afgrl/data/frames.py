"""Tables of nodes and edges as pandas DataFrames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from afgrl.data.dataset import Dataset
from afgrl.data.tables.assemble import dataset_from_tables
from afgrl.data.tables.column_names import ID_NAMES, PANDAS_INDEX, SOURCE_NAMES, TARGET_NAMES
from afgrl.data.tables.encode import Fitted
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def load_frames(source: Any, options: ReadOptions) -> Dataset:
    """A dataset from a pair (nodes, edges) of DataFrames, or from one of nodes without edges."""
    nodes, edges = source if isinstance(source, (tuple, list)) and len(source) == 2 else (source, None)
    check_frames(nodes, edges)
    if not are_frames((nodes,) if edges is None else (nodes, edges)):
        raise UserError(
            f"An object of type {type(source).__name__} is not a source; pass the name of a dataset, a file, a folder, "
            "or a pair (nodes, edges) of DataFrames."
        )
    if any(option is not None for option in (options.nodes, options.header, options.encoding)):
        raise UserError("The options nodes, header and encoding are for files, not for DataFrames.")
    if edges is None and options.knn_graph is None:
        raise UserError("One DataFrame has no edges; pass (nodes, edges), or use load(nodes, knn_graph=15).")
    if edges is not None and options.knn_graph is not None:
        raise UserError("knn_graph cannot be used with a table of edges.")
    return dataset_from_frames(nodes, edges, options)


def are_frames(objects: Any) -> bool:
    return all(hasattr(one, "columns") and hasattr(one, "rename_axis") for one in objects)


def check_frames(*objects: Any) -> None:
    """Refuse tables of another library that become DataFrames of pandas, such as those of polars."""
    for other in objects:
        if hasattr(other, "to_pandas") and not are_frames((other,)):
            kind = type(other)
            raise UserError(
                f"A {kind.__name__} of {kind.__module__.split('.')[0]} is not read; its method to_pandas() makes a "
                "DataFrame that is."
            )


def dataset_from_frames(
    nodes: pd.DataFrame, edges: pd.DataFrame | None, options: ReadOptions, fitted: Fitted = None
) -> Dataset:
    check_frames(nodes, edges)
    from pandas import RangeIndex

    if edges is not None and _has_end_columns(nodes) and not _has_end_columns(edges):
        raise UserError("The first table has the columns of an edge table; pass nodes first, then edges.")
    if options.id is None and not any(str(name).lower() in ID_NAMES for name in nodes.columns):
        # A RangeIndex only numbers the rows: it is one candidate for the id among others.
        index_is_id = not isinstance(nodes.index, RangeIndex)
        nodes = nodes.rename_axis(PANDAS_INDEX).reset_index()
        options = replace(options, id=PANDAS_INDEX if index_is_id else None)
    edge_table = None if edges is None else _to_arrow(edges, "edge")
    return dataset_from_tables(_to_arrow(nodes, "node"), edge_table, options, fitted=fitted)


def _has_end_columns(frame: pd.DataFrame) -> bool:
    names = {str(name).strip().lower() for name in frame.columns}
    return bool(names & set(SOURCE_NAMES)) and bool(names & set(TARGET_NAMES))


def _to_arrow(frame: pd.DataFrame, what: str) -> pa.Table:
    frame = frame.rename(columns=str)
    if frame.empty:
        raise UserError(f"The {what} table has no rows.")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column with several types
        mixed = {name: column.astype("string") for name, column in frame.items() if column.dtype == object}
        return pa.Table.from_pandas(frame.assign(**mixed), preserve_index=False)
