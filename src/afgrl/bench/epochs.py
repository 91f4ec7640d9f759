"""An epoch of any method: time, memory, and whether the fast path and the reference agree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.bench.measure import implementation, peak_memory
from afgrl.config import Settings
from afgrl.cost.machine import median_seconds
from afgrl.data import Dataset
from afgrl.errors import AfgrlError
from afgrl.experiment.training import attach_labels
from afgrl.nn import Progress
from afgrl.train.cuda_graph import CapturedSteps, capture_stream, eager_step, matmul_precision
from afgrl.train.state import TrainState, initial_state

# How far the gradient of a step may be from that of the reference, relative to its norm. "float32": sums in another
# order, and AFGRL may swap two neighbors of nearly equal similarity (2.4e-3 on Computers). "as it trains": products
# rounded to tf32 or bf16 (at most 3e-3 so far).
BOUNDS = {"float32": 5e-3, "as it trains": 0.02}
# Steps before the comparison. At the first step all vectors have nearly the same direction, and the gradient of InfoNCE
# is a small difference of large sums, of which float32 loses 2 %; after five steps both paths agree to 1e-7.
STEPS = 5


class Disagreement(AfgrlError):
    """The fast path does not compute what the reference does, so its speed is not reported."""


def epoch_seconds(
    method: str, settings: Settings, dataset: Dataset, device: torch.device, choice: str, seconds: float
) -> tuple[float, int | None]:
    """Seconds per epoch, averaged from one search for positives to the next, and the peak memory in bytes."""
    every = getattr(settings, "refresh_every", 1)
    with implementation(choice), peak_memory(device) as peak:
        state, inputs = training_state(method, settings, dataset, device)
        parts = (state.method, state.optimizer, state.rng, inputs)
        step = CapturedSteps(*parts) if device.type == "cuda" and choice == "auto" else lambda: eager_step(*parts)

        def from_search_to_search() -> None:
            for _ in range(every):
                step()
                state.step += 1
                state.method.after_step(Progress(min(state.step, 1000), 1000))

        with capture_stream(device):
            taken = median_seconds(from_search_to_search, device, seconds) / every
    return taken, peak[0]


def training_state(
    method: str, settings: Settings, dataset: Dataset, device: torch.device
) -> tuple[TrainState, Any]:  # fmt: skip
    """A new state in training mode, with labels if the method needs them, and the inputs of the method."""
    state, inputs = initial_state(method, settings, dataset.graph, device)
    state.method.train()
    attach_labels(state.method, dataset)
    return state, inputs


def compare(
    method: str, settings: Settings, dataset: Dataset, device: torch.device, seconds: float
) -> dict[str, Any]:  # fmt: skip
    """Times of the reference and of the fast path. Raises if they disagree; None if the reference does not fit."""
    fast, peak = epoch_seconds(method, settings, dataset, device, "auto", seconds)
    try:
        distances = gradient_distances(method, settings, dataset, device)
        reference, _ = epoch_seconds(method, settings, dataset, device, "reference", seconds)
    except torch.OutOfMemoryError:  # for example all n² similarities of InfoNCE
        return {"reference_ms": None, "fast_ms": 1e3 * fast, "speedup": None, "peak_bytes": peak, "gradient": None}
    for way, bound in BOUNDS.items():
        if not distances[way] <= bound:
            raise Disagreement(
                f"The fast path and the reference of {method} disagree on {dataset.name}: their gradients ({way}) "
                f"differ by {distances[way]:.1e}, and the limit is {bound:.0e}; their times are not reported."
            )
    return {
        "reference_ms": 1e3 * reference, "fast_ms": 1e3 * fast, "speedup": reference / fast, "peak_bytes": peak,
        "gradient": distances,
    }  # fmt: skip


def gradient_distances(method: str, settings: Settings, dataset: Dataset, device: torch.device) -> dict[str, float]:
    """|g - r| / |r| after a few steps, from the same weights and random numbers; r is the gradient of the reference in
    float32, g that of the fast path in float32 and in the precision of training."""
    with implementation("auto"), matmul_precision(settings.precision), capture_stream(device):
        state, inputs = training_state(method, settings, dataset, device)
        for step in range(1, STEPS + 1):
            eager_step(state.method, state.optimizer, state.rng, inputs)
            state.method.after_step(Progress(step, 1000))
    exact = settings.model_copy(update={"precision": "float32"})
    reference = _gradient(state, exact, dataset, device, "reference")
    ways = {"float32": exact, "as it trains": settings}
    found = {way: _gradient(state, own, dataset, device, "auto") for way, own in ways.items()}
    return {way: float((reference - fast).norm() / reference.norm().clamp(min=1e-30)) for way, fast in found.items()}


def _gradient(reached: TrainState, settings: Settings, dataset: Dataset, device: torch.device, choice: str) -> Tensor:
    """The gradient of the step after ``reached``, all parameters in one vector."""
    with implementation(choice), matmul_precision(settings.precision), capture_stream(device):
        state, inputs = training_state(reached.method.name, settings, dataset, device)
        state.method.load_state_dict(reached.method.state_dict())
        state.rng.set_state(reached.rng.get_state())
        state.method.loss(inputs, state.rng).backward()
        grads = [parameter.grad for parameter in state.method.parameters() if parameter.grad is not None]
        return torch.cat([grad.reshape(-1) for grad in grads]).double().cpu()
