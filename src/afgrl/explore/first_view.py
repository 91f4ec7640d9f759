"""What the map of the explorer shows: all nodes of a small run, a sample of the nodes of a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from afgrl.amounts import counted
from afgrl.errors import unknown
from afgrl.explore.lasso import PointsByHeight
from afgrl.explore.parameters import MAX_QUOTED, Where
from afgrl.report.arrays import Json
from afgrl.report.map_nodes import MapNodes
from afgrl.report.sample import Sampling
from afgrl.runs.folder import Run

# Nodes on the map of a run that has no more. Judgment: a browser on two cores without a GPU draws them in seconds.
MAX_POINTS = 50_000


@dataclass(frozen=True, eq=False)
class FirstView:
    """All nodes of a small run, a sample of a large one; and what the server needs to answer for all nodes."""

    nodes: MapNodes
    sampling: Sampling
    heights: PointsByHeight
    rows: np.ndarray | None  # of the sample, ascending; None: the page has all nodes
    packed: Json  # the nodes that the page starts with

    @classmethod
    def of_run(cls, run: Run, projection: str, message: Callable[[str], Any]) -> FirstView:
        n_trained = run.data().get("nodes", 0)
        if n_trained > MAX_POINTS:
            message(f"Reading {counted(n_trained, 'node')}, their vectors and edges, which takes some seconds.")
        nodes = MapNodes.of_run(run, projection, message)
        n, sampling, heights = len(nodes.ids), Sampling.of(nodes, run), PointsByHeight.of(nodes.points)
        if n <= MAX_POINTS:
            return cls(nodes, sampling, heights, None, nodes.packed())
        rows = sampling.sampled()
        message(f"The map starts with a sample of {len(rows):,} of {counted(n, 'node')}; search and filters cover all.")
        return cls(nodes, sampling, heights, rows, sampling.packed_start(rows, len(rows)))

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

    def matching(self, where: Where) -> np.ndarray:
        """Which nodes pass all filters and are inside the lasso, [n] bool."""
        passing, columns = np.ones(len(self.nodes.ids), dtype=bool), self.sampling.columns
        for given in where.filters:
            if given.column not in columns:
                raise unknown("column", given.column[:MAX_QUOTED], list(columns) or ["none"])
            passing &= columns[given.column].accepts(given.low, given.high, given.codes)
        if where.inside is not None:
            passing &= self.heights.inside(where.inside)
        return passing

    def filtered(self, where: Where) -> Json:
        """How many nodes pass the filters, a sample of them, and their density."""
        passing = self.matching(where)
        nodes = self._nodes_of(self.sampling.sampled(passing))
        return {"total": int(passing.sum()), "nodes": nodes, "density": self.sampling.density.packed(passing)}

    def _nodes_of(self, rows: np.ndarray) -> Json:
        return self.sampling.packed(rows) | {"rows": rows.tolist()}
