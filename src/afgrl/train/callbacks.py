"""Callbacks of the training loop: the loss history and checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from afgrl.errors import Interrupted, UserError
from afgrl.train.loop import LOG_EVERY
from afgrl.train.state import TrainState


class History:
    """Logs the loss every few steps, and stops training when it is not finite."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self.write = write

    def __call__(self, state: TrainState, loss: Tensor) -> None:
        if state.step % LOG_EVERY and state.step not in (1, state.last):
            return
        value = loss.item()
        if not torch.isfinite(loss):
            raise _diverged(state, value)
        self.write({"epoch": state.step, "loss": value, **state.method.diagnostics()})


class Checkpoints:
    """Saves the state every few steps or seconds, after the last step, and when training is asked to stop."""

    def __init__(
        self,
        save: Callable[[TrainState], None],
        every: int,
        *,
        seconds: float = 60.0,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        agree: Callable[[int, bool, bool], tuple[bool, bool]] = lambda step, stopping, late: (stopping, late),
    ) -> None:
        """``agree`` makes several processes save and stop after the same step, whichever received a signal."""
        self.save, self.every, self.seconds, self.stop, self.clock = save, every, seconds, stop, clock
        self.saved_at, self.agree = clock(), agree

    def __call__(self, state: TrainState, loss: Tensor) -> None:
        stopping = self.stop is not None and self.stop.is_set()
        stopping, late = self.agree(state.step, stopping, self.clock() - self.saved_at > self.seconds)
        due = self.every and (state.step % self.every == 0 or late)
        if not (stopping or due or state.step == state.last):
            return
        # A finite loss can still have an infinite gradient, so the parameters are checked too.
        if not (torch.isfinite(loss) and state.is_finite()):
            raise _diverged(state, loss.item())
        self.save(state)
        self.saved_at = self.clock()
        if stopping and state.step < state.last:
            unit = state.method.settings.step_name
            raise Interrupted(f"Interrupted after {unit} {state.step} of {state.last}.")


class Stopwatch:
    """Adds up the time of training in the state, without the time inside ``paused``."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.started = clock()

    def __call__(self, state: TrainState, loss: Tensor) -> None:
        now = self.clock()
        state.seconds += now - self.started
        self.started = now

    def restart(self) -> None:
        """What happened since the last epoch is not training."""
        self.started = self.clock()


def _diverged(state: TrainState, loss: float) -> UserError:
    unit = state.method.settings.step_name
    return UserError(f"Training diverged by {unit} {state.step} (loss {loss}); try a smaller learning_rate.")
