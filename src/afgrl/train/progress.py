"""A progress bar on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from afgrl.config import Settings
from afgrl.train.loop import LOG_EVERY, Callback
from afgrl.train.state import TrainState


@contextlib.contextmanager
def progress_bar(settings: Settings, step: int) -> Iterator[Callback]:
    """A bar with loss, speed and remaining time; yields the callback that moves it."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn(f"{{task.fields[speed]}} {settings.step_name}s/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("train", total=settings.n_steps, completed=step, loss="–", speed="–")

        def show(state: TrainState, loss: Tensor) -> None:
            # The loss is read as rarely as History reads it: each reading waits for the GPU.
            if state.step % LOG_EVERY == 0 or state.step in (1, state.last):
                speed = bar.tasks[0].speed
                bar.update(
                    task,
                    completed=state.step,
                    total=state.last,
                    loss=f"{loss.item():.4f}",
                    speed=f"{speed:.1f}" if speed else "–",
                )

        yield show
