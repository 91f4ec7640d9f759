"""DeepWalk's vectors concatenated with the node features.

Complexity: that of DeepWalk, and O(n·f) for the features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.methods.deepwalk import DeepWalkMethod, Inputs
from afgrl.ops.sparse.rows import unit_rows


class DeepWalkFeatsMethod(DeepWalkMethod):
    name = "deepwalk_feats"

    @classmethod
    def keeps_untrained(cls, settings: Any) -> bool:
        return True  # the features

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        return frozenset({"features", "edges"})

    def encode(self, inputs: Inputs) -> Tensor:
        """The rows of both parts are scaled to length 1, so that neither dominates."""
        return torch.cat([unit_rows(super().encode(inputs)), unit_rows(inputs.graph.x).to_dense()], dim=1)
