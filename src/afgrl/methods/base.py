"""The base classes of methods, the extension point of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, final

import torch
from pydantic import PositiveInt, TypeAdapter
from torch import Tensor, nn

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.nn import Progress
from afgrl.ops.collectives import Shards


class Size(NamedTuple):
    """Size of the graph a method is built for."""

    n_nodes: int
    n_features: int


class Method(nn.Module, ABC):
    """A way to learn node embeddings: an ``nn.Module`` that defines its inputs, its loss and its encoder.

    A method contains no training loop and no evaluation; ``train/`` and ``evaluate/`` work with every method. State
    that is neither a parameter nor a buffer goes through ``get_extra_state``, so that a checkpoint is complete.
    """

    name: ClassVar[str]  # the value of --method
    settings_class: ClassVar[type[Settings]]
    _device_marker: Tensor

    # Capabilities: what the rest of the package needs to know about a method.
    trains: ClassVar[bool] = True  # False: the vectors follow from the graph without training
    needs_labels: ClassVar[bool] = False  # True: it learns from the labels passed to ``attach_labels``
    inductive: ClassVar[bool] = True  # False: it embeds only the nodes of the graph it was trained on
    supports_batches: ClassVar[bool] = False  # True: batch_size and steps, or batch_size=0 and epochs for full batches
    supports_processes: ClassVar[bool] = False  # True: several processes can train it, each with some rows of the graph
    capturable: ClassVar[bool] = False  # True: a training step can be captured in a CUDA graph
    decoupled_decay: ClassVar[bool] = True  # AdamW; False: Adam with L2 regularization
    # Keys of the extra state whose tensors have a row for each node of a process; the rest is the same everywhere.
    row_state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: Any, size: Size, rng: torch.Generator) -> None:
        """Draws the initial parameters from the CPU generator ``rng``, so that they are the same on every device."""
        super().__init__()
        self.settings, self.size = settings, size
        self.shards = Shards(size.n_nodes)  # the rows of this process: all, unless torchrun started it
        self.register_buffer("_device_marker", torch.empty(0), persistent=False)

    @property
    def fused_optimizer(self) -> bool:
        """Whether a CPU updates all parameters in one fused pass."""
        return False

    @property
    def device(self) -> torch.device:
        """The device of the method, also of one without parameters."""
        return self._device_marker.device

    @classmethod
    def keeps_untrained(cls, settings: Any) -> bool:
        """Whether the embedding contains vectors that need no training beside the trained ones."""
        return False

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        """From what nodes are embedded: "features", "edges" or both."""
        return frozenset({"features", "edges"})

    @classmethod
    def check_processes(cls, settings: Any) -> None:
        """Raises ``UserError`` for settings that several processes cannot train with."""

    @abstractmethod
    def prepare(self, graph: Graph) -> Any:
        """Everything that can be computed from the graph once, before training or embedding.

        The graph is on the device of the method; with several processes it is on the host, and each moves its rows.
        """

    def initialize(self, inputs: Any) -> None:
        """Called once, before the first step of a new training run."""

    @abstractmethod
    def loss(self, inputs: Any, rng: torch.Generator) -> Tensor:
        """The loss of one step; ``rng`` is on the device of the inputs.

        With several processes, the part that the rows of this one contribute: the parts and their gradients are added.
        """

    @abstractmethod
    def encode(self, inputs: Any) -> Tensor:
        """The vectors of all nodes of prepared inputs, [n, d] float32; called in eval mode, without gradients. It
        changes no state.

        With several processes, of the nodes of this one.
        """

    def capture_key(self) -> str | None:
        """Which captured CUDA graph can replay the next step; None if the step must run eagerly.

        A replay repeats the GPU work of the captured step in the same memory, and none of its Python code. So the loss
        of a capturable step writes its results in place, does not synchronize with the GPU, and counts nothing on the
        host (``after_step`` may).
        """
        return "step" if self.capturable else None

    def learning_rate(self, progress: Progress) -> float:
        """The learning rate of the next step."""
        rate: float = self.settings.learning_rate
        return rate

    def after_step(self, progress: Progress) -> None:
        """Called after each optimizer step."""

    def finish(self, inputs: Any) -> None:
        """Called by ``complete``, in eval mode and without gradients: fit what depends on the trained vectors."""

    def diagnostics(self) -> dict[str, float]:
        """Values to log with the loss in history.jsonl."""
        return {}

    @final
    @torch.no_grad()
    def complete(self, inputs: Any) -> None:
        """``finish`` in eval mode, after the last step; vectors are only defined afterwards."""
        with self._evaluating():
            self.finish(inputs)

    @final
    @torch.no_grad()
    def embed(self, inputs: Any) -> Tensor:
        """``encode`` in eval mode, without gradients."""
        with self._evaluating():
            return self.encode(inputs)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Eval mode; the mode is restored afterwards."""
        training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(training)

    @torch.no_grad()
    def sample(self, inputs: Any, rows: Tensor) -> Tensor:
        """The trained vectors of some nodes [rows], for statistics during training: [rows, d]."""
        return self.embed(inputs)[rows]

    def embed_graph(self, graph: Graph) -> Tensor:
        """The vectors of all nodes of a graph, also one never trained on: [n, d] float32."""
        return self.embed(self.prepare(graph))

    # For methods with ``needs_labels`` only.

    @classmethod
    def label_settings(cls, n_classes: int, n_splits: int) -> dict[str, int]:
        """Settings that follow from the labels."""
        return {}

    def attach_labels(self, y: Tensor, train: Tensor, validation: Tensor) -> None:
        """Labels [n], -1 for unlabeled nodes, and each split's training and validation nodes, [s, n] bool."""
        raise AssertionError(f"{self.name} does not learn from labels")

    def predict(self, inputs: Any) -> Tensor | None:
        """The class of each node by each split's classifier, [s, n]; None for a method without a classifier."""
        return None


def positive_int(value: Any) -> int:
    """The value of a setting that ``graph_defaults`` depends on, parsed like its field; raises ``ValueError``."""
    number: int = TypeAdapter(PositiveInt).validate_python(value)
    return number


class TrainingFreeSettings(Settings):
    """Settings of a method whose vectors follow from the graph."""


class TrainingFree(Method):
    """A method whose vectors follow from the graph alone."""

    trains = False
    settings_class: ClassVar[type[Settings]] = TrainingFreeSettings

    def loss(self, inputs: Any, rng: torch.Generator) -> Tensor:
        raise AssertionError(f"{self.name} does not train")


class Transductive(Method):
    """A method that learns one vector per node of one graph, and cannot embed other nodes."""

    inductive = False
    fingerprint: Tensor  # [] int64, of that graph

    def __init__(self, settings: Any, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        self.register_buffer("fingerprint", torch.zeros((), dtype=torch.int64))

    def embed_graph(self, graph: Graph) -> Tensor:
        if graph.fingerprint != int(self.fingerprint):
            raise UserError(
                f"The method {self.name!r} learns one vector per node of one graph and cannot embed another graph; "
                "use a method that learns an encoder, such as afgrl."
            )
        return super().embed_graph(graph)
