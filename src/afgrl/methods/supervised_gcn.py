"""A supervised GCN: what labels are worth (Kipf and Welling, ICLR 2017).

The one method that takes labels, through ``learn_from``, which no other has. Each split has a network of its own, and
all of them train at once: their first layers lie side by side in one matrix.

Costs a step, for s splits of width h: two products n·f·s·h and a third for the gradient, messages of 3·e·s·(h + c);
memory n·(f + 8·s·h).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import GCNInputs, gcn_inputs, product, weight_matrix
from afgrl.ops import gather


class SupervisedGCNConfig(Settings):
    epochs: int | None = Field(200, ge=0, description="passes over the graph; the best by validation is kept")
    learning_rate: float = Field(0.01, gt=0, description="step size of Adam")
    weight_decay: float = Field(5e-4, ge=0, description="Adam's pull of every parameter towards zero")
    n_components: int = Field(64, ge=1, description="width of the hidden layer, which is the embedding (D)")
    dropout: float = Field(0.5, ge=0, lt=1, description="share of hidden values that a step leaves out")
    row_sums: bool = Field(False, description="scale each node's features to the sum 1")
    n_classes: int = Field(1, ge=1, description="follows the labels")
    n_splits: int = Field(1, ge=1, description="follows the splits")


class SupervisedGCNMethod(Method):
    name = "supervised_gcn"
    Config = SupervisedGCNConfig
    config: SupervisedGCNConfig
    decoupled_decay = False
    y: Tensor  # [n] int64
    share: Tensor  # [s, n] of each node in its split's training loss
    validation: Tensor  # [s, n] bool
    best: Tensor  # [s] validation accuracy

    def __init__(self, config: SupervisedGCNConfig, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        s, d, c = config.n_splits, config.n_components, config.n_classes
        drawn = [[weight_matrix(*shape, rng).detach() for shape in ((size.n_features, d), (d, c))] for _ in range(s)]
        values = {
            "first": torch.cat([first for first, _ in drawn], dim=1),
            "first_bias": torch.zeros(s * d),
            "last": torch.stack([last for _, last in drawn]),
            "last_bias": torch.zeros(s, c),
        }
        self.current = nn.ParameterDict({name: nn.Parameter(value) for name, value in values.items()})
        self.kept = nn.ParameterDict({name: nn.Parameter(value.clone(), False) for name, value in values.items()})
        self.register_buffer("best", torch.full((s,), -1.0))

    def learn_from(self, y: Tensor, train: Tensor, validation: Tensor) -> None:
        """The labels [n], -1 where there is none, and of each split the nodes that train it and those that choose its
        epoch, [s, n] bool."""
        known = y >= 0
        train, validation, y = train & known, validation & known, y.clamp(min=0)
        share = train / train.sum(1, keepdim=True).clamp(min=1)
        for name, value in {"y": y, "share": share, "validation": validation}.items():
            self.register_buffer(name, value.to(self.device), persistent=False)

    def prepare(self, graph: Graph) -> GCNInputs:
        return gcn_inputs(graph, to_sum_one=self.config.row_sums)

    def recordable(self) -> str | None:
        return "step"

    def loss(self, inputs: GCNInputs, rng: torch.Generator) -> Tensor:
        self._keep_best(inputs)
        hidden = self._hidden(self.current, inputs)
        stays = torch.rand(hidden.shape, device=hidden.device, generator=rng) >= self.config.dropout
        logits = self._logits(self.current, inputs, hidden * stays / (1 - self.config.dropout))
        right = F.log_softmax(logits, dim=2).gather(2, self.y.expand(len(logits), -1).unsqueeze(2)).squeeze(2)
        return -(self.share * right).sum()

    @torch.no_grad()
    def _keep_best(self, inputs: GCNInputs) -> None:
        """Of each split, keep its network if it is the best so far on the validation nodes."""
        right = (self._classes(self.current, inputs) == self.y) & self.validation
        accuracy = right.sum(1) / self.validation.sum(1).clamp(min=1)
        better = accuracy > self.best
        self.best.copy_(torch.where(better, accuracy, self.best))
        for name, kept in self.kept.items():
            columns = better.repeat_interleave(self.config.n_components, output_size=len(self.current["first_bias"]))
            which = columns if name.startswith("first") else better.view(-1, *[1] * (kept.ndim - 1))
            kept.copy_(torch.where(which, self.current[name], kept))

    @torch.no_grad()
    def represent(self, inputs: GCNInputs) -> Tensor:
        """The hidden layer of the first split's network."""
        return self._hidden(self.kept, inputs)[:, : self.config.n_components].contiguous()

    @torch.no_grad()
    def predict(self, inputs: GCNInputs) -> Tensor:
        """The class of each node by each split's network: [s, n]."""
        return self._classes(self.kept, inputs)

    def _classes(self, network: nn.ParameterDict, inputs: GCNInputs) -> Tensor:
        return self._logits(network, inputs, self._hidden(network, inputs)).argmax(2)

    def _hidden(self, network: nn.ParameterDict, inputs: GCNInputs) -> Tensor:
        return (gather(inputs.links, inputs.weight, product(inputs.x, network["first"])) + network["first_bias"]).relu()

    def _logits(self, network: nn.ParameterDict, inputs: GCNInputs, hidden: Tensor) -> Tensor:
        """[s, n, c]."""
        s, c = network["last_bias"].shape
        n = hidden.shape[0]
        messages = (hidden.view(n, s, -1).transpose(0, 1) @ network["last"]).transpose(0, 1).reshape(n, s * c)
        return (gather(inputs.links, inputs.weight, messages).view(n, s, c) + network["last_bias"]).transpose(0, 1)
