"""Which nodes of a large run the map shows as points, and how dense all of them are."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from afgrl.report.arrays import Json, pack_array
from afgrl.report.column_index import ColumnIndex
from afgrl.report.map_nodes import MapNodes
from afgrl.runs.folder import Run

SAMPLE_POINTS = 20_000  # nodes of a large run that the map shows; judgment: they are on the screen within seconds
MAX_GROUPS = 200  # a column with at most that many values is one of groups
MIN_OF_GROUP = 50  # nodes of each group that a sample has, if there are that many
DENSITY_CELLS = 400  # along the longer side of the map
MARGIN = 0.04  # of the map around the outermost nodes, as in plot.js
DENSITY_GRAY, DENSITY_OPACITY = 0x88, 0.55  # as in sample.js


def sampling_order(ids: np.ndarray, columns: Iterable[ColumnIndex], wanted_ids: set[str]) -> np.ndarray:
    """All rows, [n], the same each time: those with a wanted id, then some of each group, then any. The first rows of
    it, also among those that pass a filter, are a sample."""
    order = np.random.default_rng(0).permutation(len(ids))
    is_first = np.zeros(len(order), dtype=bool)
    for column in columns:
        if column.codes is not None and len(column.values) + column.n_rarer <= MAX_GROUPS:
            is_first |= _ranks(column.codes[order]) < MIN_OF_GROUP
    is_wanted = np.array([node_id in wanted_ids for node_id in map(str, ids[order].tolist())])
    importance = np.where(is_wanted, 0, np.where(is_first, 1, 2))
    ordered: np.ndarray = order[np.argsort(importance, kind="stable")]
    return ordered


def _ranks(codes: np.ndarray) -> np.ndarray:
    """For each position how many earlier ones have the same code, [n]."""
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - starts[codes[order]]
    return ranks


@dataclass(frozen=True, eq=False)
class Density:
    """A grid over the map, and the cell of each node."""

    width: int
    height: int
    low: np.ndarray  # [2] the lower left corner
    extent: np.ndarray  # [2]
    cells: np.ndarray  # [n] int32, row by row, the upper row first

    @classmethod
    def of(cls, points: np.ndarray) -> Density:
        low = points.min(0).astype(np.float64)
        extent = np.maximum(points.max(0) - low, 1e-9)
        width, height = np.maximum(1, np.round(DENSITY_CELLS * extent / extent.max())).astype(int).tolist()
        column, row = (
            np.minimum((points[:, axis] - low[axis]) * (size / extent[axis]), size - 1).astype(np.int32)
            for axis, size in enumerate((width, height))
        )
        return cls(width, height, low, extent, (height - 1 - row) * width + column)

    def shades(self, rows: np.ndarray | None = None) -> np.ndarray:
        """How many nodes (all, or those of a mask) are in each cell, 0 to 255 on a logarithmic scale, [h·w] uint8."""
        counts = np.bincount(self.cells if rows is None else self.cells[rows], minlength=self.width * self.height)
        return np.ceil(255 * np.log1p(counts) / np.log1p(max(1, counts.max()))).astype(np.uint8)

    def packed(self, rows: np.ndarray | None = None) -> Json:
        low, extent = self.low.tolist(), self.extent.tolist()
        cells = pack_array(self.shades(rows))
        return {"width": self.width, "height": self.height, "low": low, "extent": extent, "cells": cells}

    def picture(self) -> bytes:
        """A PNG of the full map, with its margin, which a browser shows before it has read any script."""
        from matplotlib.image import imsave  # only the explorer of a large run needs it

        margins = [round(MARGIN * size) for size in (self.height, self.width)]
        shades = self.shades().reshape(self.height, self.width)
        opacity = np.round(DENSITY_OPACITY * shades).astype(np.uint8)
        opacity = np.pad(opacity, [(margin, margin) for margin in margins])
        file = io.BytesIO()
        imsave(file, np.dstack([np.full((*opacity.shape, 3), DENSITY_GRAY, np.uint8), opacity]), format="png")
        return file.getvalue()


@dataclass(frozen=True, eq=False)
class Sampling:
    """A sample of the nodes of a large run, and what the page tells about all of them."""

    nodes: MapNodes
    columns: dict[str, ColumnIndex]
    order: np.ndarray  # [n] rows, most important first
    density: Density

    @classmethod
    def of(cls, nodes: MapNodes, run: Run) -> Sampling:
        table = nodes.columns
        columns = {
            name: ColumnIndex.of(column, category=role != "")
            for name, column, role in zip(table.column_names, table.columns, nodes.roles, strict=True)
        }
        order = sampling_order(nodes.ids, columns.values(), _central_ids(run))
        return cls(nodes, columns, order, Density.of(nodes.points))

    def sampled(self, passing: np.ndarray | None = None) -> np.ndarray:
        """Rows of the sample, ascending, of all nodes or of those of a mask."""
        order = self.order if passing is None else self.order[passing[self.order]]
        rows: np.ndarray = np.sort(order[:SAMPLE_POINTS])
        return rows

    def packed(self, rows: np.ndarray) -> Json:
        """These nodes in the format of the payload. Columns of categories stay that: a few rows could look like
        numbers."""
        categories = frozenset(name for name, column in self.columns.items() if column.numbers is None)
        return self.nodes.packed(rows, categories)

    def packed_start(self, rows: np.ndarray, n_points: int) -> Json:
        """The nodes that a page starts with, of which the first ``n_points`` are points on the map, with the legends
        and the density of all nodes."""
        packed = self.packed(rows)
        for column in packed["columns"]:
            column["all"] = self.columns[column["name"]].summary()
        sample = {
            "total": len(self.order), "rows": pack_array(rows.astype(np.int32)), "points": n_points,
            "density": self.density.packed(),
        }  # fmt: skip
        return packed | {"sample": sample}


def _central_ids(run: Run) -> set[str]:
    """Of the nodes that the cards of the clusters and the map name."""
    clusters = run.clusters()
    cards = clusters[1]["clusters"] if clusters else []
    return {str(node_id) for card in cards for node_id in [card.get("center"), *card["closest"]]}
