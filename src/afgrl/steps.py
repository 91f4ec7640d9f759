"""One training step, and on a GPU a recording of it that is played instead.

A step of a small graph is a hundred kernels of a few microseconds each: Python would take longer to ask for them than
the GPU to run them. A CUDA graph asks once for all of them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from afgrl.methods.base import Method

Step = Callable[[], Tensor]  # makes one step and returns its loss
EAGER_STEPS = 2  # of each kind before it is recorded: kernels are compiled and libraries take their memory in them


def plain_step(method: Method, optimizer: torch.optim.Optimizer, rng: torch.Generator, inputs: Any) -> Tensor:
    with matmul_precision(method.config.precision):
        loss = method.loss(inputs, rng)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


class RecordedSteps:
    """Makes steps, from the third of a kind on by playing what the GPU did in one of them.

    The loss it returns is overwritten by the next step of its kind.
    """

    def __init__(self, method: Method, optimizer: torch.optim.Optimizer, rng: torch.Generator, inputs: Any) -> None:
        self.method, self.rng = method, rng
        self.step: Step = lambda: plain_step(method, optimizer, rng, inputs)
        self.made: Counter[str] = Counter()
        self.recordings: dict[str, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def __call__(self) -> Tensor:
        kind = self.method.recordable()
        if kind is None:
            return self.step()
        if kind in self.recordings:
            recording, loss = self.recordings[kind]
            recording.replay()
            return loss
        self.made[kind] += 1
        if self.made[kind] <= EAGER_STEPS:
            return self.step()
        recording = torch.cuda.CUDAGraph()
        recording.register_generator_state(self.rng)
        with torch.cuda.graph(recording, stream=torch.cuda.current_stream()):
            loss = self.step()
        self.recordings[kind] = recording, loss
        recording.replay()
        return loss


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Float32 products on a GPU by tf32 units or not; the process's own setting comes back afterwards."""
    settings = torch.backends.cuda.matmul
    former = settings.fp32_precision
    settings.fp32_precision = "ieee" if precision == "float32" else "tf32"
    try:
        yield
    finally:
        settings.fp32_precision = former


@contextlib.contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """A stream of its own on a GPU, as recording needs; nothing elsewhere."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.cuda.current_stream(device).wait_stream(stream)
