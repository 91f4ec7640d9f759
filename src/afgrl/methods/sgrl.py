"""SGRL: a target encoder scatters the nodes away from their mean, and smoothed vectors of an online encoder predict it
(He et al., Exploitation of a Latent Mechanism in Graph Contrastive Learning: Representation Scattering, NeurIPS 2024).

With unit target vectors t and their mean m, the target minimizes -mean ‖t - m‖². The online vectors are H + SʰH, and
a prediction from them is pulled to t. After each step, the target also moves toward the online encoder (EMA).

Complexity per step, for edges e: O(n·f·d + n·d²) for the layers and the predictor, O(e·d) for the messages.
Memory: O(n·(f + d)).
"""

from __future__ import annotations

import copy

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import GCN, MLP, GCNInputs, Progress, ema_update, gcn_inputs
from afgrl.ops.optim import lerp_parameters
from afgrl.ops.sparse import spmm


class SGRLSettings(EpochSettings):
    """The defaults are one setting for all graphs: the median of each of the authors' settings over their graphs, but
    100 epochs instead of 700. On Cora and CiteSeer, which are not among theirs, the vectors get worse soon after that,
    and later worse than those of the untrained encoder."""

    epochs: int = Field(100, ge=0, description="passes over the graph; many more help on some graphs only")
    learning_rate: float = Field(1e-4, gt=0, description="learning rate of Adam for the online encoder and predictor")
    target_learning_rate: float = Field(1e-4, gt=0, description="learning rate of Adam for the target encoder")
    weight_decay: float = Field(0.0, ge=0, description="L2 regularization of Adam, applied to every parameter")
    n_components: int = Field(1024, ge=1, description="width of the embedding (D)")
    n_hops: int = Field(1, ge=0, description="steps of propagation of the vectors that are added to them (h)")
    momentum: float = Field(0.99, ge=0, le=1, description="EMA decay of the target encoder (τ)")
    row_sums: bool = Field(True, description="scale the features of each node to the sum 1")


class SGRLMethod(Method):
    name = "sgrl"
    capturable = True
    settings_class = SGRLSettings
    settings: SGRLSettings
    decoupled_decay = False

    def __init__(self, settings: SGRLSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        d = settings.n_components
        self.encoder, self.target = (GCN([size.n_features, d], "prelu", "none", rng) for _ in range(2))
        self.predictor = MLP(d, d, d, nn.PReLU(), rng)
        self.last_target: GCN | None = None  # before the last step; only if the target has a learning rate of its own
        if settings.target_learning_rate != settings.learning_rate:
            self.last_target = copy.deepcopy(self.target).requires_grad_(False)

    def prepare(self, graph: Graph) -> GCNInputs:
        return gcn_inputs(graph, to_sum_one=self.settings.row_sums)

    def loss(self, inputs: GCNInputs, rng: torch.Generator) -> Tensor:
        t = self.target(inputs)
        z = self.predictor(self._smoothed(inputs))
        return scattering_loss(t) - F.cosine_similarity(z, t.detach()).mean()

    def encode(self, inputs: GCNInputs) -> Tensor:
        return self._smoothed(inputs)

    def _smoothed(self, inputs: GCNInputs) -> Tensor:
        """H + SʰH: [n, d]."""
        h = smooth = self.encoder(inputs)
        for _ in range(self.settings.n_hops):
            smooth = spmm(inputs.adjacency, smooth, inputs.values)
        return h + smooth

    @torch.no_grad()
    def after_step(self, progress: Progress) -> None:
        if self.last_target is not None:
            # The optimizer has one learning rate, and the size of its steps is proportional to it.
            share = self.settings.target_learning_rate / self.settings.learning_rate
            lerp_parameters(list(self.target.parameters()), list(self.last_target.parameters()), 1 - share)
        ema_update(self.target, self.encoder, self.settings.momentum)
        if self.last_target is not None:
            ema_update(self.last_target, self.target, 0.0)  # a copy


def scattering_loss(t: Tensor) -> Tensor:
    """-mean ‖u - mean u‖² of the unit rows u: between 0, if all are equal, and -1: []."""
    unit = F.normalize(t)
    return -(unit - unit.mean(0)).square().sum(1).mean()
