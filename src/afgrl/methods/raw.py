"""A baseline without training: the node features themselves.

Memory: O(n·f).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import TrainingFree


class RawMethod(TrainingFree):
    """The features X, unchanged."""

    name = "raw"

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        return frozenset({"features"})

    def prepare(self, graph: Graph) -> Tensor:
        return graph.x

    def encode(self, inputs: Tensor) -> Tensor:
        return inputs.to_dense()  # no copy if it is dense
