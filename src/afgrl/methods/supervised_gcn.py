"""A supervised GCN, the reference for what labels contribute
(Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017).

Each split has its own network. All of them train at once: their first layers are concatenated to one matrix.

Complexity per step, for edges e, s splits and c classes: O(n·f·s·d) for the layers and O(e·s·(d + c)) for the messages.
Memory: O(n·(f + s·d)).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.nn import GCNInputs, gcn_inputs, padded_matmul, weight_matrix
from afgrl.ops.sparse import spmm


class SupervisedGCNSettings(EpochSettings):
    epochs: int = Field(
        200, ge=0, description="passes over the graph; the result is the epoch with the best validation accuracy"
    )
    learning_rate: float = Field(0.01, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(5e-4, ge=0, description="L2 regularization of Adam, applied to every parameter")
    n_components: int = Field(64, ge=1, description="width of the hidden layer, whose output is the embedding (D)")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout probability of the hidden layer")
    row_sums: bool = Field(False, description="scale the features of each node to the sum 1")
    n_classes: int = Field(1, ge=1, description="number of classes; set from the labels")
    n_splits: int = Field(1, ge=1, description="number of splits; set from the labels")


class SupervisedGCNMethod(Method):
    name = "supervised_gcn"
    capturable = True
    settings_class = SupervisedGCNSettings
    settings: SupervisedGCNSettings
    decoupled_decay = False
    needs_labels = True
    y: Tensor  # [n] int64
    loss_weight: Tensor  # [s, n], the same for each training node of a split, 0 for all other nodes
    validation: Tensor  # [s, n] bool
    best_accuracy: Tensor  # [s] on the validation nodes

    def __init__(self, settings: SupervisedGCNSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        s, d, c = settings.n_splits, settings.n_components, settings.n_classes
        shapes = (size.n_features, d), (d, c)
        networks = [[weight_matrix(*shape, rng).detach() for shape in shapes] for _ in range(s)]
        values = {
            "first": torch.cat([first for first, _ in networks], dim=1),
            "first_bias": torch.zeros(s * d),
            "last": torch.stack([last for _, last in networks]),
            "last_bias": torch.zeros(s, c),
        }
        self.current = nn.ParameterDict({name: nn.Parameter(value) for name, value in values.items()})
        self.best = nn.ParameterDict({name: nn.Parameter(value.clone(), False) for name, value in values.items()})
        self.register_buffer("best_accuracy", torch.full((s,), -1.0))

    def attach_labels(self, y: Tensor, train: Tensor, validation: Tensor) -> None:
        known = y >= 0
        train, validation, y = train & known, validation & known, y.clamp(min=0)
        loss_weight = train / train.sum(1, keepdim=True).clamp(min=1)
        for name, value in {"y": y, "loss_weight": loss_weight, "validation": validation}.items():
            self.register_buffer(name, value.to(self.device), persistent=False)

    @classmethod
    def label_settings(cls, n_classes: int, n_splits: int) -> dict[str, int]:
        return {"n_classes": n_classes, "n_splits": n_splits}

    def prepare(self, graph: Graph) -> GCNInputs:
        return gcn_inputs(graph, to_sum_one=self.settings.row_sums)

    def loss(self, inputs: GCNInputs, rng: torch.Generator) -> Tensor:
        self._update_best(inputs)
        hidden = self._hidden(self.current, inputs)
        mask = torch.rand(hidden.shape, device=hidden.device, generator=rng) >= self.settings.dropout
        logits = self._logits(self.current, inputs, hidden * mask / (1 - self.settings.dropout))
        y = self.y.expand(len(logits), -1).unsqueeze(2)  # [s, n, 1]
        log_likelihood = F.log_softmax(logits, dim=2).gather(2, y).squeeze(2)  # [s, n]
        return -(self.loss_weight * log_likelihood).sum()

    @torch.no_grad()
    def _update_best(self, inputs: GCNInputs) -> None:
        """Copy the network of each split whose validation accuracy is the best so far."""
        correct = (self._classes(self.current, inputs) == self.y) & self.validation
        accuracy = correct.sum(1) / self.validation.sum(1).clamp(min=1)
        better = accuracy > self.best_accuracy
        self.best_accuracy.copy_(torch.where(better, accuracy, self.best_accuracy))
        for name, best in self.best.items():
            columns = better.repeat_interleave(self.settings.n_components, output_size=len(self.current["first_bias"]))
            replaced = columns if name.startswith("first") else better.view(-1, *[1] * (best.ndim - 1))
            best.copy_(torch.where(replaced, self.current[name], best))

    def encode(self, inputs: GCNInputs) -> Tensor:
        """The hidden layer of the first split's network."""
        return self._hidden(self.best, inputs)[:, : self.settings.n_components].contiguous()

    @torch.no_grad()
    def predict(self, inputs: GCNInputs) -> Tensor:
        return self._classes(self.best, inputs)

    def _classes(self, network: nn.ParameterDict, inputs: GCNInputs) -> Tensor:
        return self._logits(network, inputs, self._hidden(network, inputs)).argmax(2)

    def _hidden(self, network: nn.ParameterDict, inputs: GCNInputs) -> Tensor:
        """[n, s·d]."""
        messages = padded_matmul(inputs.x, network["first"])
        return (spmm(inputs.adjacency, messages, inputs.values) + network["first_bias"]).relu()

    def _logits(self, network: nn.ParameterDict, inputs: GCNInputs, hidden: Tensor) -> Tensor:
        """[s, n, c]."""
        s, c = network["last_bias"].shape
        n = hidden.shape[0]
        messages = (hidden.view(n, s, -1).transpose(0, 1) @ network["last"]).transpose(0, 1).reshape(n, s * c)
        return (spmm(inputs.adjacency, messages, inputs.values).view(n, s, c) + network["last_bias"]).transpose(0, 1)
