"""A graph together with what training must not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from afgrl.data.notes import Notes
from afgrl.data.splits import Splits
from afgrl.graph import Graph

if TYPE_CHECKING:
    from afgrl.data.files.encode import Encoder
    from afgrl.data.files.structure import Structure


@dataclass(frozen=True, eq=False)
class Reading:
    """What a user's files gave besides the graph."""

    columns: pa.Table  # ``id`` and the columns of the nodes as they were, in node order
    listed: int  # nodes that a table lists; those after them occur in edges only
    label: str | None  # which column is the label
    encoder: Encoder | Structure | None  # how columns became features; None if the files had features
    classes: list[str] | None  # names of the labels 0…c-1
    notes: Notes


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a loader returns: the graph, and beside it the labels and splits that only evaluation reads."""

    name: str
    graph: Graph
    y: np.ndarray | None = None  # [n] int64, classes 0…c-1, -1 where unknown
    splits: Splits | None = None
    reading: Reading | None = None

    @property
    def n_classes(self) -> int:
        return 0 if self.y is None else int(self.y.max()) + 1

    @property
    def feature_names(self) -> list[str]:
        if self.reading is not None and self.reading.encoder is not None:
            return self.reading.encoder.names
        return [f"feature {i}" for i in range(self.graph.n_features)]
