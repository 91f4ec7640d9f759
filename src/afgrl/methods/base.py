"""What a method is: the one extension point of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.nn import Progress


class Size(NamedTuple):
    """Of the graph a method is made for."""

    n_nodes: int
    n_features: int


class Method(nn.Module, ABC):
    """A way to learn node vectors: an ``nn.Module`` that knows its inputs, its loss and its embedding.

    It holds no loop and no evaluation; ``train.py`` and ``evaluate/`` serve every method alike. What it keeps
    between steps besides parameters and buffers goes through ``get_extra_state``, so that a checkpoint is whole.
    """

    name: ClassVar[str]  # the word of --method
    _here: Tensor
    Config: ClassVar[type[Settings]]
    trains: ClassVar[bool] = True  # False: the vectors are there without a single step
    is_inductive: ClassVar[bool] = True  # False: it knows the nodes of its own graph only
    decoupled_decay: ClassVar[bool] = True  # AdamW; False: Adam, whose weight decay is part of the gradient

    def __init__(self, config: Any, size: Size, rng: torch.Generator) -> None:
        """Draws the first parameters from ``rng``, a generator on the CPU: they are the same on every device."""
        super().__init__()
        self.config, self.size = config, size
        self.register_buffer("_here", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where it is, also without a parameter."""
        return self._here.device

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

    def learning_rate(self, progress: Progress) -> float:
        """Of the step that comes next."""
        rate: float = self.config.learning_rate
        return rate

    def after_step(self, progress: Progress) -> None:
        """Called after each optimizer step."""

    def diagnostics(self) -> dict[str, float]:
        """What is worth a look beside the loss; a line of history.jsonl carries it."""
        return {}

    @abstractmethod
    def represent(self, inputs: Any) -> Tensor:
        """The vectors of all nodes of prepared inputs: [n, d] float32, without gradient."""

    def embed(self, graph: Graph) -> Tensor:
        """The vectors of all nodes of a graph, also one never trained on: [n, d] float32."""
        return self.represent(self.prepare(graph))


class FreeSettings(Settings):
    epochs: int | None = Field(0, ge=0, le=0, description="there is no training")


class TrainingFree(Method):
    """A method whose vectors follow from the graph alone."""

    trains = False
    Config: ClassVar[type[Settings]] = FreeSettings

    def loss(self, inputs: Any, rng: torch.Generator) -> Tensor:
        raise AssertionError(f"{self.name} does not train")


class NodeTable(Method):
    """A method that learns a vector for each node of one graph, and knows no other nodes."""

    is_inductive = False
    fingerprint: Tensor  # [] int64, of that graph

    def __init__(self, config: Any, size: Size, rng: torch.Generator) -> None:
        super().__init__(config, size, rng)
        self.register_buffer("fingerprint", torch.zeros((), dtype=torch.int64))

    def embed(self, graph: Graph) -> Tensor:
        if graph.fingerprint != int(self.fingerprint):
            raise UserError(
                f"The method {self.name!r} learns a vector for each node of one graph and cannot embed another; "
                "a method that learns an encoder can, afgrl for one."
            )
        return super().embed(graph)
