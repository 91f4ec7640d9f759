"""BGRL: predict the target vector of each node in the other view of the graph, without negatives
(Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022).

Complexity per step, for edges e and hidden_width w: O(n·f·w + n·w·d) for the layers and O(e·(w + d)) for the messages.
Memory: O(n·(f + w + d)).
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN, MLP, Progress, ema_decay, ema_update


class BGRLSettings(ViewSettings):
    epochs: int = Field(2000, ge=0, description="passes over the graph")
    learning_rate: float = Field(5e-4, gt=0, description="highest learning rate of AdamW")
    warmup: float = Field(
        0.1, ge=0, lt=1, description="share of the epochs in which the learning rate rises; a cosine decay follows"
    )
    predictor_width: int = Field(512, ge=1, description="hidden width of the predictor")
    momentum: float = Field(0.99, ge=0, le=1, description="initial EMA decay of the target encoder (τ)")


class BGRLMethod(Method):
    name = "bgrl"
    capturable = True
    settings_class = BGRLSettings
    settings: BGRLSettings

    def __init__(self, settings: BGRLSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        widths = [size.n_features, settings.hidden_width, settings.n_components]
        self.encoder = GCN(widths, "prelu", "batch", rng)
        d = settings.n_components
        self.predictor = MLP(d, settings.predictor_width, d, nn.PReLU(), rng)
        # Not a copy of the encoder: the authors initialize the target with other random weights.
        self.target = GCN(widths, "prelu", "batch", rng).requires_grad_(False)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.settings)

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        (h1, t1), (h2, t2) = inputs.encoded([self.encoder, self.target], rng)
        agreement = (F.cosine_similarity(self.predictor(h), t).mean() for h, t in ((h1, t2), (h2, t1)))
        return 2 - torch.stack(list(agreement)).sum()

    def learning_rate(self, progress: Progress) -> float:
        warmup = self.settings.warmup * progress.total
        if progress.step < warmup:
            return self.settings.learning_rate * max(progress.step, 1) / warmup
        done = (progress.step - warmup) / max(1.0, progress.total - warmup)
        return self.settings.learning_rate * (1 + math.cos(math.pi * done)) / 2

    def after_step(self, progress: Progress) -> None:
        ema_update(self.target, self.encoder, ema_decay(progress, self.settings.momentum, "cosine"))

    def encode(self, inputs: ViewInputs) -> Tensor:
        h: Tensor = self.encoder(inputs.gcn)
        return h
