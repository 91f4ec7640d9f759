"""Multi-hop features without training: [X | SX | … | SʰX], rows of each block at one length.

Costs h sparse products, e·f each, and the memory of the table, n·f·(h + 1).
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import FreeSettings, TrainingFree
from afgrl.ops import hops


class HopsConfig(FreeSettings):
    n_hops: int = Field(2, ge=0, description="how far a node looks")


class HopsMethod(TrainingFree):
    name = "hops"
    Config = HopsConfig
    config: HopsConfig

    def prepare(self, graph: Graph) -> Tensor:
        return hops(graph, self.config.n_hops)

    def represent(self, inputs: Tensor) -> Tensor:
        return inputs.to_dense()[:, : self.size.n_features * (self.config.n_hops + 1)]  # a GPU has zeros behind it
