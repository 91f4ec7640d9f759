"""What the map of the explorer shows: all nodes of a small run, a sample of the nodes of a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from afgrl.errors import unknown
from afgrl.explore.column_index import ColumnIndex
from afgrl.explore.parameters import MAX_QUOTED, Where
from afgrl.explore.sample import Density, PointsByHeight, sampling_order
from afgrl.report.arrays import Json, pack_array
from afgrl.report.map_nodes import MapNodes
from afgrl.runs.folder import Run

MAX_POINTS = 50_000  # nodes on the map of a run that has no more; more take longer than a user waits
SAMPLE_POINTS = 20_000  # of a larger run


@dataclass(frozen=True, eq=False)
class Sampling:
    """What the server needs to answer for nodes that the page does not have."""

    columns: dict[str, ColumnIndex]
    order: np.ndarray  # [n] rows, most important first
    density: Density
    heights: PointsByHeight

    @classmethod
    def of(cls, nodes: MapNodes, wanted_ids: set[str]) -> Sampling:
        table = nodes.columns
        columns = {
            name: ColumnIndex.of(column, category=role != "")
            for name, column, role in zip(table.column_names, table.columns, nodes.roles, strict=True)
        }
        order = sampling_order(nodes.ids, columns.values(), wanted_ids)
        return cls(columns, order, Density.of(nodes.points), PointsByHeight.of(nodes.points))

    def matching(self, where: Where) -> np.ndarray:
        """Which nodes pass all filters and are inside the lasso, [n] bool."""
        passing = np.ones(len(self.order), dtype=bool)
        for given in where.filters:
            if given.column not in self.columns:
                raise unknown("column", given.column[:MAX_QUOTED], list(self.columns) or ["none"])
            passing &= self.columns[given.column].accepts(given.low, given.high, given.codes)
        if where.inside is not None:
            passing &= self.heights.inside(where.inside)
        return passing

    @property
    def categories(self) -> frozenset[str]:
        """The names of the columns of categories: a few rows could look like numbers."""
        return frozenset(name for name, column in self.columns.items() if column.numbers is None)

    def sampled(self, passing: np.ndarray | None = None) -> np.ndarray:
        """Rows of the sample, ascending."""
        order = self.order if passing is None else self.order[passing[self.order]]
        rows: np.ndarray = np.sort(order[:SAMPLE_POINTS])
        return rows


@dataclass(frozen=True, eq=False)
class FirstView:
    """All nodes of a small run, a sample of a large one."""

    nodes: MapNodes
    sampling: Sampling
    rows: np.ndarray | None  # of the sample, ascending; None: the page has all nodes
    packed: Json  # the nodes that the page starts with

    @classmethod
    def of_run(cls, run: Run, projection: str, message: Callable[[str], Any]) -> FirstView:
        n_trained = run.data().get("nodes", 0)
        if n_trained > MAX_POINTS:
            message(f"Reading {n_trained:,} nodes, their vectors and edges, which takes some seconds.")
        nodes = MapNodes.of_run(run, projection, message)
        n, sampling = len(nodes.ids), Sampling.of(nodes, _central_ids(run))
        if n <= MAX_POINTS:
            return cls(nodes, sampling, None, nodes.packed())
        message(f"The map starts with a sample of {SAMPLE_POINTS:,} of the {n:,} nodes; search and filters cover all.")
        rows = sampling.sampled()
        packed = nodes.packed(rows, sampling.categories)
        for column in packed["columns"]:
            column["all"] = sampling.columns[column["name"]].summary()
        sample = {"total": n, "rows": pack_array(rows.astype(np.int32)), "density": sampling.density.packed()}
        return cls(nodes, sampling, rows, packed | {"sample": sample})

    @property
    def picture(self) -> bytes | None:
        """The density of all nodes as a PNG, for a page that takes long to draw its points; None for a small run."""
        return None if self.rows is None else self.sampling.density.picture()

    def complete(self, answer: Json) -> Json:
        """The answer about a node and its neighbors with the nodes in it that the sample lacks, in the format of the
        payload, so that the page can add them to the map."""
        if self.rows is None:
            return answer
        named = [answer["row"], *answer["facts"]["edges"], *(neighbor["row"] for neighbor in answer["neighbors"])]
        return answer | {"nodes": self._nodes_of(np.setdiff1d(named, self.rows))}

    def filtered(self, where: Where) -> Json:
        """How many nodes pass the filters, a sample of them, and their density."""
        passing = self.sampling.matching(where)
        nodes = self._nodes_of(self.sampling.sampled(passing))
        return {"total": int(passing.sum()), "nodes": nodes, "density": self.sampling.density.packed(passing)}

    def _nodes_of(self, rows: np.ndarray) -> Json:
        return self.nodes.packed(rows, self.sampling.categories) | {"rows": rows.tolist()}


def _central_ids(run: Run) -> set[str]:
    """Of the nodes that the cards of the clusters and the map name."""
    clusters = run.clusters()
    cards = clusters[1]["clusters"] if clusters else []
    return {str(node_id) for card in cards for node_id in [card.get("center"), *card["closest"]]}
