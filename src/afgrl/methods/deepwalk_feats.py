"""DeepWalk's vectors beside the features: both what the edges and what the features tell, without mixing them.

Costs as DeepWalk, and n·f for the wider table.
"""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.methods.deepwalk import DeepWalkMethod, Inputs
from afgrl.ops import unit_rows


class DeepWalkFeatsMethod(DeepWalkMethod):
    name = "deepwalk_feats"

    @torch.no_grad()
    def represent(self, inputs: Inputs) -> Tensor:
        """Rows of both parts have length 1, so that neither drowns the other."""
        return torch.cat([unit_rows(super().represent(inputs)), unit_rows(inputs.graph.x).to_dense()], dim=1)
