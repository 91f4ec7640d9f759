"""The nodes of a run as the map shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.analysis.added_nodes import all_clusters
from afgrl.analysis.projection import project_run
from afgrl.report.arrays import Json, pack_array, pack_column, pack_ids
from afgrl.runs.added import all_nodes, all_vectors
from afgrl.runs.folder import Run

MAX_COLUMNS = 60  # of the user's columns; with a thousand the page would be large and hard to use


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
