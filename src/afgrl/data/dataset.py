"""A graph together with what training must not see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afgrl.data.splits import Splits
from afgrl.graph import Graph


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a loader returns: the graph, and beside it the labels and splits that only evaluation reads."""

    name: str
    graph: Graph
    y: np.ndarray | None = None  # [n] int64, classes 0…c-1
    splits: Splits | None = None

    @property
    def n_classes(self) -> int:
        return 0 if self.y is None else int(self.y.max()) + 1
