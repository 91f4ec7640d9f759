"""BGRL: predict, for each node, its own target vector in another view of the graph
(Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022).

Costs a step, for layers of hidden_width and d: products n·f·hidden_width six times, messages of 6·e·(hidden_width + d);
memory n·(f + 12·hidden_width + 12·d).
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN, MLP, Progress, follow, target_decay


class BGRLConfig(ViewSettings):
    epochs: int | None = Field(2000, ge=0, description="passes over the graph")
    learning_rate: float = Field(5e-4, gt=0, description="the highest step size of AdamW")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of training in which the step size rises; it then falls")
    predictor_width: int = Field(512, ge=1, description="hidden width of the predictor")
    momentum: float = Field(0.99, ge=0, le=1, description="share the target keeps of itself in a step, at first (τ)")


class BGRLMethod(Method):
    name = "bgrl"
    Config = BGRLConfig
    config: BGRLConfig

    def __init__(self, config: BGRLConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        widths = [size.n_features, config.hidden_width, config.n_components]
        self.encoder = GCN(widths, "prelu", "batch", rng)
        d = config.n_components
        self.predictor = MLP(d, config.predictor_width, d, nn.PReLU(), rng)
        # Not a copy: the authors draw its first weights on their own.
        self.target = GCN(widths, "prelu", "batch", rng).requires_grad_(False)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.config)

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        (h1, t1), (h2, t2) = inputs.encoded([self.encoder, self.target], rng)
        agreement = (F.cosine_similarity(self.predictor(h), t).mean() for h, t in ((h1, t2), (h2, t1)))
        return 2 - torch.stack(list(agreement)).sum()

    def learning_rate(self, progress: Progress) -> float:
        warmup = self.config.warmup * progress.total
        if progress.step < warmup:
            return self.config.learning_rate * max(progress.step, 1) / warmup
        done = (progress.step - warmup) / max(1.0, progress.total - warmup)
        return self.config.learning_rate * (1 + math.cos(math.pi * done)) / 2

    def after_step(self, progress: Progress) -> None:
        follow(self.target, self.encoder, target_decay(progress, self.config.momentum, "cosine"))

    @torch.no_grad()
    def represent(self, inputs: ViewInputs) -> Tensor:
        was_training = self.training
        self.eval()
        h = self.encoder(inputs.gcn)
        self.train(was_training)
        return h
