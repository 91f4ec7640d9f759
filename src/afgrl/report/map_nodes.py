"""The nodes of a run as the map shows them, and which of them the page starts with if there are too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from afgrl.analysis.added_nodes import all_clusters
from afgrl.analysis.projection import project_run
from afgrl.report.arrays import Json, pack_array, pack_column, pack_ids
from afgrl.runs.added import all_nodes, all_vectors
from afgrl.runs.folder import Run

MAX_COLUMNS = 60  # of the user's columns; with a thousand the page would be large and hard to use
MAX_GROUPS = 200  # a column with at most that many values is one of groups
MIN_OF_GROUP = 50  # nodes of each group that a sample has, if there are that many
DENSITY_CELLS = 400  # along the longer side of the map


@dataclass(frozen=True, eq=False)
class MapNodes:
    """What the page has of each node."""

    ids: np.ndarray  # [n]
    points: np.ndarray  # [n, 2] float32
    columns: pa.Table  # [n] rows; the user's columns and the cluster
    roles: tuple[str, ...]  # of the columns: "label", "name", "cluster" or ""
    projection: str
    width: int  # of the vectors

    @classmethod
    def of_run(cls, run: Run, projection: str, message: Callable[[str], Any]) -> MapNodes:
        points, table, names = project_run(run, projection, message), node_table(run), run.names()
        known = {run.data().get("label"): "label"} | ({names[0]: "name"} if names else {})
        roles = [known.get(name, "") for name in table.column_names]
        if run.clusters() is not None:
            roles[-1] = "cluster"
        shown = [i for i, role in enumerate(roles) if i and (i <= MAX_COLUMNS or role)]
        ids, vectors = all_vectors(run)
        width = vectors.shape[1]
        return cls(ids, points, table.select(shown), tuple(roles[i] for i in shown), projection, width)

    def packed(self, rows: np.ndarray | None = None, categories: frozenset[str] = frozenset()) -> Json:
        """Ids, points and columns of these rows, or of all; the columns of those names as categories in any case."""
        ids, points, table = self.ids, self.points, self.columns
        if rows is not None:
            ids, points, table = ids[rows], points[rows], table.take(pa.array(rows))
        columns = [
            pack_column(name, column, role=role, category=role != "" or name in categories)
            for name, column, role in zip(table.column_names, table.columns, self.roles, strict=True)
        ]
        x, y = (pack_array(points[:, axis]) for axis in (0, 1))
        return {
            "n": len(ids),
            "width": self.width,
            "ids": pack_ids(ids),
            "projection": {"name": self.projection, "x": x, "y": y},
            "columns": columns,
        }


def node_table(run: Run) -> pa.Table:
    """``id``, the user's columns, which addition a node came with if there are any, and last the cluster if the run
    has clusters. In one chunk: PyArrow would join the chunks again for each question about a few rows."""
    nodes, clusters = all_nodes(run), all_clusters(run)
    if clusters is None:
        return nodes.combine_chunks()
    name = "cluster" if "cluster" not in nodes.column_names else "afgrl cluster"
    return nodes.append_column(name, pa.array(clusters, pa.int32())).combine_chunks()


def sampled_rows(nodes: MapNodes, size: int, wanted_ids: set[str]) -> np.ndarray:
    """Rows of that many nodes in ascending order, the same ones each time: those with a wanted id, then some of each
    group, then any."""
    order = np.random.default_rng(0).permutation(len(nodes.ids))
    is_first = np.zeros(len(order), dtype=bool)
    for column, role in zip(nodes.columns.columns, nodes.roles, strict=True):
        codes = _group_codes(column, role)
        if codes is not None:
            is_first |= _ranks(codes[order]) < MIN_OF_GROUP
    is_wanted = np.array([node_id in wanted_ids for node_id in map(str, nodes.ids[order].tolist())])
    importance = np.where(is_wanted, 0, np.where(is_first, 1, 2))
    chosen: np.ndarray = np.sort(order[np.argsort(importance, kind="stable")[:size]])
    return chosen


def packed_density(points: np.ndarray) -> Json:
    """How many of all nodes are in each cell of a grid over the map, as bytes from 0 to 255 on a logarithmic scale."""
    low, high = points.min(0).astype(np.float64), points.max(0).astype(np.float64)
    extent = np.maximum(high - low, 1e-9)
    shape = np.maximum(1, np.round(DENSITY_CELLS * extent / extent.max())).astype(int)
    counts, _, _ = np.histogram2d(
        points[:, 0], points[:, 1], bins=shape, range=list(zip(low, low + extent, strict=True))
    )
    shade = np.log1p(counts) / np.log1p(counts.max())
    cells = np.ceil(255 * shade).astype(np.uint8).T[::-1]  # rows of an image, the upper one first
    low_list, extent_list = low.tolist(), extent.tolist()
    return {
        "width": int(shape[0]),
        "height": int(shape[1]),
        "low": low_list,
        "extent": extent_list,
        "cells": pack_array(cells),
    }


def _group_codes(column: pa.ChunkedArray, role: str) -> np.ndarray | None:
    """A number for each value, [n]; None for a column of numbers, dates or too many values."""
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)
    if not is_text and role not in ("label", "cluster"):
        return None
    encoded = pc.dictionary_encode(column.cast(kind).combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    if len(encoded.dictionary) > MAX_GROUPS and role not in ("label", "cluster"):
        return None
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
    return codes


def _ranks(codes: np.ndarray) -> np.ndarray:
    """For each position how many earlier ones have the same code, [n]."""
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - starts[codes[order]]
    return ranks
