"""Training: all that changes, and the loop that changes it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from afgrl.config import Settings
from afgrl.errors import AfgrlError, Interrupted, UserError
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.methods.base import Method, Size
from afgrl.nn import Progress
from afgrl.ops import Adam, is_fast
from afgrl.steps import RecordedSteps, plain_step, side_stream

Callback = Callable[["State", Tensor], None]  # called after each epoch with the loss of that epoch
LOG_EVERY = 10  # epochs; reading a loss waits for the GPU, so not every epoch


@dataclass
class State:
    """All that changes in training; a checkpoint is this on disk."""

    method: Method
    optimizer: Adam
    rng: torch.Generator
    last: int  # the epoch training ends with; patience may bring it forward
    lowest: Tensor  # [] the lowest loss so far
    waited: Tensor  # [] int64, epochs since then
    step: int = 0

    def to_checkpoint(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "last": self.last,
            "lowest": self.lowest,
            "waited": self.waited,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.get_state(),
        }

    def restore(self, checkpoint: dict[str, Any]) -> None:
        self.method.load_state_dict(checkpoint["method"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        drawn = checkpoint["rng"].cpu()
        if len(drawn) == len(self.rng.get_state()):
            self.rng.set_state(drawn)
        else:  # of another kind of device, which draws other numbers anyway
            self.rng.manual_seed(self.method.config.seed + checkpoint["step"])
        self.step, self.last = checkpoint["step"], checkpoint["last"]
        self.lowest.copy_(checkpoint["lowest"])
        self.waited.copy_(checkpoint["waited"])

    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.method.parameters())


def start(method: str, config: Settings, graph: Graph, device: torch.device) -> tuple[State, Any]:
    """A state before its first epoch, and the method's inputs; the same numbers whatever the device."""
    first_parameters = torch.Generator().manual_seed(config.seed)
    model = method_class(method)(config, Size(graph.n, graph.n_features), first_parameters).to(device)
    inputs = model.prepare(graph.to(device))
    model.begin(inputs)
    learned: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # An optimizer wants a tensor, also if there is nothing to learn.
    learned = learned or [torch.empty(0, device=device)]
    decay, decoupled = config.weight_decay, model.decoupled_decay
    optimizer = Adam(learned, config.learning_rate, weight_decay=decay, decoupled=decoupled)
    rng = torch.Generator(device).manual_seed(config.seed)
    lowest, waited = torch.tensor(torch.inf, device=device), torch.tensor(0, device=device)
    assert config.epochs is not None, "the settings must be adapted to a graph first"
    return State(model, optimizer, rng, config.epochs, lowest, waited), inputs


def train(state: State, inputs: Any, callbacks: Sequence[Callback] = ()) -> None:
    """Train from where the state is to the last epoch."""
    method, optimizer, epochs = state.method, state.optimizer, state.method.config.epochs
    method.train()
    parts = (method, optimizer, state.rng, inputs)
    # Recorded only where it pays: on a GPU, unless the references are asked for.
    step = RecordedSteps(*parts) if state.rng.device.type == "cuda" and is_fast() else partial(plain_step, *parts)
    rate = None
    with side_stream(state.rng.device):
        while state.step < state.last:
            former, rate = rate, method.learning_rate(Progress(state.step, epochs))
            if rate != former:
                optimizer.set_learning_rate(rate)
            loss = step()
            method.after_step(Progress(state.step + 1, epochs))
            state.step += 1
            _lose_patience(state, loss)
            for callback in callbacks:
                callback(state, loss)


def _lose_patience(state: State, loss: Tensor) -> None:
    """Let this epoch be the last if the loss has not fallen for too long. That is looked up every few epochs only."""
    patience = state.method.config.patience
    if not patience:
        return
    state.waited.copy_(torch.where(loss < state.lowest, 0, state.waited + 1))
    state.lowest.copy_(torch.minimum(state.lowest, loss))
    if state.step % LOG_EVERY == 0 and int(state.waited) >= patience:
        state.last = state.step


class History:
    """Keeps a line every few epochs, and stops a training whose loss is no longer a number."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self.write = write

    def __call__(self, state: State, loss: Tensor) -> None:
        if state.step % LOG_EVERY and state.step not in (1, state.last):
            return
        value = loss.item()
        if not torch.isfinite(loss):
            raise _diverged(state.step, value)
        self.write({"epoch": state.step, "loss": value, **state.method.diagnostics()})


class Checkpoints:
    """Saves the state every few epochs or seconds, and when a signal asks training to stop."""

    def __init__(
        self,
        save: Callable[[dict[str, Any]], None],
        every: int,
        *,
        seconds: float = 60.0,
        stop: threading.Event | None = None,
    ) -> None:
        self.save, self.every, self.seconds, self.stop = save, every, seconds, stop
        self.saved_at = time.monotonic()

    def __call__(self, state: State, loss: Tensor) -> None:
        stopping = self.stop is not None and self.stop.is_set()
        due = self.every and (state.step % self.every == 0 or time.monotonic() - self.saved_at > self.seconds)
        if not (stopping or due or state.step == state.last):
            return
        # A finite loss can still give an infinite gradient: look at what would be saved.
        if not (torch.isfinite(loss) and state.is_finite()):
            raise _diverged(state.step, loss.item())
        self.save(state.to_checkpoint())
        self.saved_at = time.monotonic()
        if stopping and state.step < state.last:
            raise Interrupted(f"Interrupted after epoch {state.step} of {state.last}.")


def _diverged(step: int, loss: float) -> AfgrlError:
    return AfgrlError(f"Training diverged by epoch {step} (loss {loss}); a smaller learning_rate usually helps.")


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second signal interrupts at once, as usual."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # only the main thread may set handlers
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)

    for number in former:
        signal.signal(number, handle)
    try:
        yield event
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def pick_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise UserError(f"The device can be auto, cpu or cuda, not {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("The device 'cuda' was asked for, but PyTorch sees no GPU here; 'cpu' and 'auto' work.")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")
