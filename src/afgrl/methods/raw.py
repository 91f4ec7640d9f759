"""The features themselves: what any training has to beat.

Costs nothing but the memory of the dense table, n·f.
"""

from __future__ import annotations

from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import TrainingFree


class RawMethod(TrainingFree):
    """X as it is."""

    name = "raw"

    def prepare(self, graph: Graph) -> Tensor:
        return graph.x

    def represent(self, inputs: Tensor) -> Tensor:
        return inputs.to_dense()  # the same tensor where it is dense
