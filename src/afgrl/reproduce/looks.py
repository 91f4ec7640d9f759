"""How often a training is evaluated on its way, and by what the paper's protocol picks: a part of what scores are."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from afgrl import evaluate
from afgrl.data import Splits
from afgrl.train import State

Record = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How thoroughly a training is evaluated."""

    looks: int = 6  # times in training, of which the paper's protocol picks one
    longest: int | None = 500  # epochs from one look to the next
    n_splits: int = 20
    n_fits: int = 10  # clusterings
    n_init: int = 10  # starts of each, in the paper's protocol


# A look takes as long as some hundred epochs, so where a method is trained many times over there are two.
THOROUGH, GRID = Effort(), Effort(looks=2, longest=None)
QUICK = Effort(looks=1, longest=None, n_splits=3, n_fits=2, n_init=1)
PATIENT = 50  # epochs between looks where patience may end a training; it ended DGI's after 220 to 880


class Looks:
    """Evaluates by the paper's protocol now and then, and keeps its own time apart."""

    def __init__(self, y: Any, splits: Splits, inputs: Any, effort: Effort, state: State) -> None:
        self.y, self.splits, self.inputs, self.effort = y, splits, inputs, effort
        # Where patience may end a training early, it shall have been looked at before.
        longest = PATIENT if state.method.config.patience and effort.looks > 1 else effort.longest or state.last
        self.every = max(1, min(math.ceil(state.last / effort.looks), longest))
        self.records: list[Record] = []
        self.seconds = 0.0

    def __call__(self, state: State, loss: Tensor) -> None:
        if state.step % self.every == 0 or state.step == state.last:
            loss.item()  # which waits for the step
            self.evaluate(state, state.step)

    def evaluate(self, state: State, epoch: int) -> None:
        began = time.perf_counter()
        fits = {"n_fits": self.effort.n_fits, "n_init": self.effort.n_init}
        vectors = state.method.represent(self.inputs)
        self.records.append(evaluate.snapshot(vectors, self.y, self.splits, epoch=epoch, **fits))
        self.seconds += time.perf_counter() - began
