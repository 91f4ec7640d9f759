"""A baseline without training: multi-hop features [X | SX | … | SʰX], the rows of each block scaled to one length.

Complexity, for edges e: O(h·e·f). Memory: O(h·n·f).
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from afgrl.graph import Graph
from afgrl.methods.base import TrainingFree, TrainingFreeSettings
from afgrl.ops.propagation import multi_hop_features


class HopsSettings(TrainingFreeSettings):
    n_hops: int = Field(2, ge=0, description="number of hops (h)")


class HopsMethod(TrainingFree):
    name = "hops"
    settings_class = HopsSettings
    settings: HopsSettings

    def prepare(self, graph: Graph) -> Tensor:
        return multi_hop_features(graph, self.settings.n_hops)

    def encode(self, inputs: Tensor) -> Tensor:
        return inputs.to_dense()[:, : self.size.n_features * (self.settings.n_hops + 1)]  # without the padding on a GPU
