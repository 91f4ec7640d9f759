"""What a method is: the one extension point of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.nn import Progress


class Method(nn.Module, ABC):
    """A way to learn node vectors: an ``nn.Module`` that knows its inputs, its loss and its embedding.

    It holds no loop and no evaluation; ``train.py`` and ``evaluate/`` serve every method alike. What it keeps
    between steps besides parameters and buffers goes through ``get_extra_state``, so that a checkpoint is whole.
    """

    name: ClassVar[str]  # the word of --method
    Config: ClassVar[type[Settings]]

    def __init__(self, config: Any, n_features: int, rng: torch.Generator) -> None:
        """Draws the first parameters from ``rng``, a generator on the CPU: they are the same on every device."""
        super().__init__()
        self.config = config
        self.n_features = n_features

    @abstractmethod
    def prepare(self, graph: Graph) -> Any:
        """All that can be computed from the graph once, before training or embedding."""

    def begin(self, inputs: Any) -> None:
        """Called once, before the first step of a new training."""

    @abstractmethod
    def loss(self, inputs: Any, rng: torch.Generator) -> Tensor:
        """The loss of one step; ``rng`` lives on the inputs' device."""

    def recordable(self) -> str | None:
        """The kind of the step that comes next, if one such step, recorded on a GPU, can stand for all of its kind.

        A recording repeats what the GPU did, with the memory it did it in, and nothing of what Python did: the loss
        of such a step keeps its results in place, waits for nothing, and counts nothing (``after_step`` may).
        """
        return None

    def after_step(self, progress: Progress) -> None:
        """Called after each optimiser step."""

    def diagnostics(self) -> dict[str, float]:
        """What is worth a look beside the loss; a line of history.jsonl carries it."""
        return {}

    @abstractmethod
    def represent(self, inputs: Any) -> Tensor:
        """The vectors of all nodes of prepared inputs: [n, d] float32, without gradient."""

    def embed(self, graph: Graph) -> Tensor:
        """The vectors of all nodes of a graph, also one never trained on: [n, d] float32."""
        return self.represent(self.prepare(graph))
