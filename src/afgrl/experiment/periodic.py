"""Evaluations during training, from which best-epoch evaluation chooses its epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from afgrl.data import Dataset, Splits
from afgrl.evaluate import evaluate_epoch, select_labeled
from afgrl.runs.spec import EvaluationPlan
from afgrl.train.callbacks import Stopwatch
from afgrl.train.state import TrainState


class PeriodicEvaluation:
    """Evaluates every few epochs and after the last one; its own time does not count as training."""

    def __init__(
        self, dataset: Dataset, inputs: Any, plan: EvaluationPlan, write: Callable[[dict[str, Any]], None],
        stopwatch: Stopwatch,
    ) -> None:  # fmt: skip
        assert dataset.y is not None
        assert dataset.splits is not None  # a dataset with labels has splits
        self.rows, self.y, splits = select_labeled(dataset.y, dataset.splits)
        self.splits = first_splits(splits, plan)
        self.inputs, self.plan, self.write, self.stopwatch = inputs, plan, write, stopwatch

    def __call__(self, state: TrainState, loss: Tensor) -> None:
        if state.step % self.plan.every == 0 or state.step == state.last:
            loss.item()  # waits for the GPU, so that the epoch counts as training
            self.stopwatch(state, loss)
            self.evaluate(state)
            self.stopwatch.restart()

    def evaluate(self, state: TrainState) -> None:
        state.method.complete(self.inputs)  # to the vectors of this epoch
        vectors = state.method.embed(self.inputs)[torch.from_numpy(self.rows)]
        effort = {"n_fits": self.plan.n_fits, "n_init": self.plan.n_init}
        self.write(evaluate_epoch(vectors, self.y, self.splits, epoch=state.step, **effort))


def first_splits(splits: Splits, plan: EvaluationPlan) -> Splits:
    if plan.n_splits is None or plan.n_splits >= len(splits):
        return splits
    return Splits(f"first {plan.n_splits} of {splits.name}", splits.roles[: plan.n_splits])
