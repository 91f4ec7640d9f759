"""A baseline without training: the vectors of the method svd, averaged by personalized PageRank.

Complexity, for edges e and width d: that of svd, and O(e·d). Memory: O(n·r) with r = 512.
"""

from __future__ import annotations

from torch import Tensor

from afgrl.methods.svd import SpectralInputs, SVDMethod
from afgrl.ops.propagation.columns import pagerank_average


class PPRMethod(SVDMethod):
    """Ten steps of ``h ← .85 S h + .15 v`` from the vectors ``v`` of svd."""

    name = "ppr"

    def encode(self, inputs: SpectralInputs) -> Tensor:
        return pagerank_average(super().encode(inputs), inputs.adjacency)
