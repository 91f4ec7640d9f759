"""node2vec: DeepWalk by walks that prefer to return (p) or to leave the neighborhood they came from (q)
(Grover and Leskovec, node2vec: Scalable Feature Learning for Networks, KDD 2016).

Costs as DeepWalk, and for each step of a walk a few binary searches among the edges; no table of second-order
transitions is made, which would need the sum of squared degrees.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from afgrl.methods.deepwalk import DeepWalkConfig, DeepWalkMethod, Inputs
from afgrl.ops import biased_walks


class Node2VecConfig(DeepWalkConfig):
    p: float = Field(1.0, gt=0, description="the larger, the less often a walk goes back")
    q: float = Field(0.5, gt=0, description="the larger, the longer a walk stays around")


class Node2VecMethod(DeepWalkMethod):
    name = "node2vec"
    Config = Node2VecConfig
    config: Node2VecConfig

    def walks(self, inputs: Inputs, begin: Tensor, rng: torch.Generator) -> Tensor:
        config = self.config
        return biased_walks(inputs.near, begin, config.walk_length, config.p, config.q, rng)
