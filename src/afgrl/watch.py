"""What is looked at while a run trains, and kept in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from afgrl import evaluate as evaluation
from afgrl.data import Dataset
from afgrl.runs import Run
from afgrl.train import State

SAMPLE = 1000  # vectors


class Health:
    """Whether vectors collapse or have stopped to move, by a sample of them."""

    def __init__(self, state: State, inputs: Any, n: int) -> None:
        self.state, self.inputs = state, inputs
        self.rows = torch.from_numpy(np.random.default_rng(0).permutation(n)[:SAMPLE]).to(state.method.device)
        self.first = self._vectors() if state.last else torch.empty(0)  # without training there is nothing to follow

    def look(self) -> dict[str, float]:
        """``spread``: 1 less the squared length of the mean, 0 if all point one way. ``rank``: how many directions the
        variance fills. ``drift``: the mean of 1 less the cosine to the vectors before training."""
        now = self._vectors()
        mean = now.mean(0)
        covariance = (now - mean).T @ (now - mean)
        rank = covariance.trace().square() / covariance.square().sum().clamp(min=1e-30)
        drift = 1 - (now * self.first).sum(1).mean()
        found = {"spread": 1 - mean.square().sum(), "rank": rank, "drift": drift}
        return {name: round(float(value), 6) for name, value in found.items()}

    def _vectors(self) -> Tensor:
        return functional.normalize(self.state.method.represent(self.inputs)[self.rows].float())


class Trace:
    """Evaluates every few epochs by the paper's protocol, which picks its epoch from these records."""

    def __init__(self, run: Run, dataset: Dataset, inputs: Any, every: int) -> None:
        self.run, self.dataset, self.inputs, self.every = run, dataset, inputs, every

    def __call__(self, state: State, loss: Tensor) -> None:
        if state.step % self.every == 0 or state.step == state.last:
            self.evaluate(state)

    def evaluate(self, state: State) -> None:
        assert self.dataset.y is not None
        assert self.dataset.splits is not None  # labels come with splits
        vectors = state.method.represent(self.inputs)
        rows, y, splits = evaluation.labeled(self.dataset.y, self.dataset.splits)
        record = evaluation.snapshot(vectors[torch.from_numpy(rows)], y, splits, epoch=state.step)
        self.run.append("trace.jsonl", record)
