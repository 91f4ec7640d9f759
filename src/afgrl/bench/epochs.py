"""An epoch of any method: how long it takes, what it needs, and whether both paths compute the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.bench.measure import implementation, median_seconds, peak_memory
from afgrl.config import Settings
from afgrl.errors import AfgrlError
from afgrl.graph import Graph
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.nn import Progress
from afgrl.steps import RecordedSteps, matmul_precision, plain_step, side_stream
from afgrl.train import State, start

# How far the gradient of a step may be from the reference's, relative to its length: with float32 products, where sums
# come in another order (and two neighbors of AFGRL's that are nearly as near may change places: 2.4e-3 on Computers),
# and as it trains, where they are rounded to tf32 or bf16 (at most 3e-3 so far).
BOUNDS = {"float32": 5e-3, "as it trains": 0.02}
# Steps before that. At the very first all vectors point nearly the same way, and a contrast's gradient is so small a
# difference of large sums that plain float32 loses 2 % of it; after five steps both paths agree to 1e-7.
STEPS = 5


class Disagreement(AfgrlError):
    """A fast path that does not compute what the reference does has no speed worth reporting."""


def epoch(
    method: str, config: Settings, graph: Graph, device: torch.device, choice: str, seconds: float
) -> tuple[float, int | None]:
    """Seconds of an epoch, on average from one search for positives to the next, and bytes at most in use."""
    every = getattr(config, "refresh_every", 1)
    with implementation(choice), peak_memory(device) as peak:
        state, inputs = begun(method, config, graph, device)
        parts = (state.method, state.optimizer, state.rng, inputs)
        step = RecordedSteps(*parts) if device.type == "cuda" and choice == "auto" else lambda: plain_step(*parts)

        def from_search_to_search() -> None:
            for _ in range(every):
                step()
                state.step += 1
                state.method.after_step(Progress(min(state.step, 1000), 1000))

        with side_stream(device):
            taken = median_seconds(from_search_to_search, device, seconds) / every
    return taken, peak[0]


def begun(method: str, config: Settings, graph: Graph, device: torch.device) -> tuple[State, Any]:
    state, inputs = start(method, config, graph, device)
    state.method.train()
    if isinstance(state.method, SupervisedGCNMethod):  # any labels take the same time
        node, split = torch.arange(graph.n), torch.arange(state.method.config.n_splits)[:, None]
        part = (node + split) % 10
        state.method.learn_from(node % state.method.config.n_classes, part == 0, part == 1)
    return state, inputs


def compare(
    method: str, config: Settings, graph: Graph, device: torch.device, seconds: float, where: str
) -> dict[str, Any]:
    """The reference and the fast path of a method; where they disagree, or the reference has no room, that is said."""
    fast, peak = epoch(method, config, graph, device, "auto", seconds)
    try:
        distances = disagreement(method, config, graph, device)
        reference, _ = epoch(method, config, graph, device, "reference", seconds)
    except torch.OutOfMemoryError:  # all n² similarities of a contrast may not fit
        return {"reference_ms": None, "fast_ms": 1e3 * fast, "speedup": None, "peak_bytes": peak, "gradient": None}
    for way, bound in BOUNDS.items():
        if not distances[way] <= bound:
            raise Disagreement(
                f"The fast path and the reference of {method} disagree on {where}: their gradients ({way}) differ by "
                f"{distances[way]:.1e}, where {bound:.0e} is allowed; nothing is reported of them."
            )
    return {
        "reference_ms": 1e3 * reference, "fast_ms": 1e3 * fast, "speedup": reference / fast, "peak_bytes": peak,
        "gradient": distances,
    }  # fmt: skip


def disagreement(method: str, config: Settings, graph: Graph, device: torch.device) -> dict[str, float]:
    """|g - g'| / |g'| of the gradients after a few steps, from the same weights and draws; g' is the reference's in
    float32."""
    with implementation("auto"), matmul_precision(config.precision), side_stream(device):
        state, inputs = begun(method, config, graph, device)
        for step in range(1, STEPS + 1):
            plain_step(state.method, state.optimizer, state.rng, inputs)
            state.method.after_step(Progress(step, 1000))
    exact = config.model_copy(update={"precision": "float32"})
    plain = _gradient(state, exact, graph, device, "reference")
    ways = {"float32": exact, "as it trains": config}
    found = {way: _gradient(state, settings, graph, device, "auto") for way, settings in ways.items()}
    return {way: float((plain - fast).norm() / plain.norm().clamp(min=1e-30)) for way, fast in found.items()}


def _gradient(reached: State, config: Settings, graph: Graph, device: torch.device, choice: str) -> Tensor:
    """Of the step after the one that was reached."""
    with implementation(choice), matmul_precision(config.precision), side_stream(device):
        state, inputs = begun(reached.method.name, config, graph, device)
        state.method.load_state_dict(reached.method.state_dict())
        state.rng.set_state(reached.rng.get_state())
        state.method.loss(inputs, state.rng).backward()
        grads = [parameter.grad for parameter in state.method.parameters() if parameter.grad is not None]
        return torch.cat([grad.reshape(-1) for grad in grads]).double().cpu()
