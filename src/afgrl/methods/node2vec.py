"""node2vec: DeepWalk with second-order walks, biased by the return parameter p and the in-out parameter q
(Grover and Leskovec, node2vec: Scalable Feature Learning for Networks, KDD 2016).

Complexity: that of DeepWalk, and a few binary searches among the edges for each node of a walk. There is no table of
second-order transition probabilities, whose size would be the sum of squared degrees.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from afgrl.methods.deepwalk import DeepWalkMethod, DeepWalkSettings, Inputs
from afgrl.ops.walks import biased_walks


class Node2VecSettings(DeepWalkSettings):
    p: float = Field(1.0, gt=0, description="return parameter; larger values make a step back less likely")
    q: float = Field(0.5, gt=0, description="in-out parameter; larger values keep a walk close to its previous node")


class Node2VecMethod(DeepWalkMethod):
    name = "node2vec"
    settings_class = Node2VecSettings
    settings: Node2VecSettings

    def walks(self, inputs: Inputs, start: Tensor, rng: torch.Generator) -> Tensor:
        settings = self.settings
        return biased_walks(inputs.walk_graph, start, settings.walk_length, settings.p, settings.q, rng)
