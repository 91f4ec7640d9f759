"""The training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from afgrl.nn import Progress
from afgrl.ops.dispatch import is_fast
from afgrl.train.cuda_graph import CapturedSteps, capture_stream, eager_step
from afgrl.train.state import TrainState

Callback = Callable[[TrainState, Tensor], None]  # called after each step with its loss
LOG_EVERY = 10  # steps; reading a loss synchronizes with the GPU


def training_loop(state: TrainState, inputs: Any, callbacks: Sequence[Callback] = ()) -> None:
    """Train from the current step of the state to its last one."""
    method, optimizer, n_steps = state.method, state.optimizer, state.method.settings.n_steps
    method.train()
    parts = (method, optimizer, state.rng, inputs)
    capture = state.rng.device.type == "cuda" and is_fast()
    step = CapturedSteps(*parts) if capture else partial(eager_step, *parts)
    rate = None
    with capture_stream(state.rng.device):
        while state.step < state.last:
            previous, rate = rate, method.learning_rate(Progress(state.step, n_steps))
            if rate != previous:
                optimizer.set_learning_rate(rate)
            loss = step()
            method.after_step(Progress(state.step + 1, n_steps))
            state.step += 1
            _stop_if_out_of_patience(state, loss)
            for callback in callbacks:
                callback(state, loss)
    method.complete(inputs)


def _stop_if_out_of_patience(state: TrainState, loss: Tensor) -> None:
    """Make this step the last one if the loss has not fallen for too long; checked every few steps only."""
    patience = state.method.settings.patience
    if not patience:
        return
    state.waited.copy_(torch.where(loss < state.lowest, 0, state.waited + 1))
    state.lowest.copy_(torch.minimum(state.lowest, loss))
    if state.step % LOG_EVERY == 0 and int(state.waited) >= patience:
        state.last = state.step
