"""One training step, and CUDA graphs that replay it on a GPU.

A step on a small graph is a hundred kernels of a few microseconds each: launching them from Python would take longer
than running them. A CUDA graph launches all of them at once.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from afgrl.methods.base import Method
from afgrl.ops.collectives import sum_gradients

Step = Callable[[], Tensor]  # makes one step and returns its loss
EAGER_STEPS = 2  # before each capture: they compile kernels and let libraries allocate their workspaces


def eager_step(method: Method, optimizer: torch.optim.Optimizer, rng: torch.Generator, inputs: Any) -> Tensor:
    with matmul_precision(method.settings.precision):
        loss = method.loss(inputs, rng)
        optimizer.zero_grad()
        loss.backward()
        loss = sum_gradients(loss, method.parameters(), method.shards)
        optimizer.step()
    return loss.detach()


class CapturedSteps:
    """Makes steps; from the third with the same capture key on, by replaying a CUDA graph.

    The returned loss is overwritten by the next step with that key.
    """

    def __init__(self, method: Method, optimizer: torch.optim.Optimizer, rng: torch.Generator, inputs: Any) -> None:
        self.method, self.rng = method, rng
        self.step: Step = lambda: eager_step(method, optimizer, rng, inputs)
        self.eager_steps: Counter[str] = Counter()
        self.captured: dict[str, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def __call__(self) -> Tensor:
        key = self.method.capture_key()
        if key is None:
            return self.step()
        if key in self.captured:
            graph, loss = self.captured[key]
            graph.replay()
            return loss
        self.eager_steps[key] += 1
        if self.eager_steps[key] <= EAGER_STEPS:
            return self.step()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.rng)
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            loss = self.step()
        self.captured[key] = graph, loss
        graph.replay()
        return loss


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Whether float32 products on a GPU may use tf32; the setting of the process is restored afterwards."""
    backend = torch.backends.cuda.matmul
    previous = backend.fp32_precision
    backend.fp32_precision = "ieee" if precision == "float32" else "tf32"
    try:
        yield
    finally:
        backend.fp32_precision = previous


@contextlib.contextmanager
def capture_stream(device: torch.device) -> Iterator[None]:
    """A separate stream on a GPU, which capture requires; nothing on a CPU."""
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
