"""Which nodes the page of the explorer starts with, and the others that it needs later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from afgrl.report.arrays import Json, pack_array
from afgrl.report.map_nodes import MapNodes, packed_density, sampled_rows
from afgrl.runs.folder import Run

MAX_POINTS = 50_000  # nodes on the map of the first view; more take longer than a user waits


@dataclass(frozen=True, eq=False)
class FirstView:
    """All nodes of a small run, a sample of a large one."""

    nodes: MapNodes
    rows: np.ndarray | None  # of the sample, ascending; None: all nodes
    packed: Json  # the same nodes for the page

    @classmethod
    def of_run(cls, run: Run, projection: str, message: Callable[[str], Any]) -> FirstView:
        n_trained = run.data().get("nodes", 0)
        if n_trained > MAX_POINTS:
            message(f"Reading {n_trained:,} nodes, their vectors and edges, which takes some seconds.")
        nodes = MapNodes.of_run(run, projection, message)
        n = len(nodes.ids)
        if n <= MAX_POINTS:
            return cls(nodes, None, nodes.packed())
        message(f"The map starts with a sample of {MAX_POINTS:,} of the {n:,} nodes; search finds all of them.")
        rows = sampled_rows(nodes, MAX_POINTS, _central_ids(run))
        density = packed_density(nodes.points)
        sample = {"total": n, "rows": pack_array(rows.astype(np.int32)), "density": density}
        return cls(nodes, rows, nodes.packed(rows) | {"sample": sample})

    def complete(self, answer: Json) -> Json:
        """The answer about a node and its neighbors with the nodes in it that the sample lacks, in the format of the
        payload, so that the page can add them to the map."""
        if self.rows is None:
            return answer
        categories = frozenset(column["name"] for column in self.packed["columns"] if column["kind"] == "category")
        named = [answer["row"], *answer["facts"]["edges"], *(neighbor["row"] for neighbor in answer["neighbors"])]
        missing = np.setdiff1d(named, self.rows)
        return answer | {"nodes": self.nodes.packed(missing, categories) | {"rows": missing.tolist()}}


def _central_ids(run: Run) -> set[str]:
    """Of the nodes that the cards of the clusters and the map name."""
    clusters = run.clusters()
    cards = clusters[1]["clusters"] if clusters else []
    return {str(node_id) for card in cards for node_id in [card.get("center"), *card["closest"]]}
