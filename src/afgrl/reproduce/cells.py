"""One training and its scores: what every table and figure is made of."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afgrl import evaluate
from afgrl.config import Settings, recipe, resolve
from afgrl.data import Dataset, Splits, load
from afgrl.environment import environment
from afgrl.lessons import lesson_size, teach
from afgrl.methods import method_class
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.reproduce.looks import THOROUGH, Effort, Looks, Record
from afgrl.train import Checkpoints, State, start, train
from afgrl.writing import replace_file


@dataclass(frozen=True)
class Cell:
    """One training: all that its scores depend on, but for data and code."""

    dataset: str
    method: str
    seed: int = 0
    recipe: str = "paper"
    settings: tuple[tuple[str, Any], ...] = ()  # ascending by name, over the recipe's
    effort: Effort = THOROUGH

    @property
    def command(self) -> str:
        """What repeats the training."""
        sets = " ".join(f"--set {name}={value}" for name, value in self.settings)
        words = f"afgrl fit {self.dataset} --method {self.method} --recipe {self.recipe} --seed {self.seed} {sets}"
        return words.strip()


def measure(cell: Cell, dataset: Dataset, device: torch.device, halfway: Path) -> Record:
    """Train, and evaluate in both protocols. A training is kept ``halfway`` once a minute, and goes on from there."""
    assert dataset.splits is not None
    splits = Splits(dataset.splits.name, dataset.splits.roles[: cell.effort.n_splits])
    began = time.perf_counter()
    state, inputs = begun(cell, dataset, device)
    look = Looks(dataset.y, splits, inputs, cell.effort, state)
    before = 0.0
    if halfway.is_file():
        kept = torch.load(halfway, map_location=device, weights_only=True)
        state.restore(kept["state"])
        look.records, before = kept["looks"], kept["seconds"]
    elif state.last and cell.effort.looks > 1:
        look.evaluate(state, 0)  # the untrained encoder is a candidate, as in the authors' code

    def spent() -> float:
        return before + time.perf_counter() - began - look.seconds

    def keep(checkpoint: dict[str, Any]) -> None:
        whole = {"state": checkpoint, "looks": look.records, "seconds": spent()}
        replace_file(halfway, partial(torch.save, whole))

    train(state, inputs, [look, Checkpoints(keep, every=state.last)])  # a look is kept with the state it saw
    vectors = state.method.represent(inputs)
    seconds = spent()
    if not look.records:  # there was no training
        look.evaluate(state, state.step)
    picked = evaluate.as_json(evaluate.pick(look.records))
    scores = evaluate.as_json(evaluate.label_free(vectors, dataset.y, splits, n_fits=cell.effort.n_fits))
    if isinstance(state.method, SupervisedGCNMethod):  # it classifies by itself
        classes = state.method.predict(inputs)[: len(splits)].cpu()
        own = evaluate.as_json(evaluate.predicted(classes, dataset.y, splits))
        scores["classification"] = picked["classification"] = own["classification"]
    return {
        **dataclasses.asdict(cell), "settings": state.method.config.model_dump(), "command": cell.command,
        "environment": environment(device), "epochs": state.step, "seconds": seconds,
        "label-free": scores, "paper": picked, "looks": [_means(seen) for seen in look.records],
    }  # fmt: skip


def _means(look: Record) -> Record:
    """What the paper's protocol saw of one epoch."""
    means = {"accuracy": look["test"], "nmi": look["nmi"], "sim@5": [look["sim@5"]]}
    return {"epoch": look["epoch"]} | {name: float(np.mean(values)) for name, values in means.items()}


def begun(cell: Cell, dataset: Dataset, device: torch.device) -> tuple[State, Any]:
    state, inputs = start(cell.method, config(cell, dataset), dataset.graph, device)
    if isinstance(state.method, SupervisedGCNMethod):
        teach(state.method, dataset)
    return state, inputs


def config(cell: Cell, dataset: Dataset) -> Settings:
    cls = method_class(cell.method)
    size = lesson_size(cell.method, dataset) if issubclass(cls, SupervisedGCNMethod) else {}
    layers = [recipe(cell.method, cell.recipe, cell.dataset), size, dict(cell.settings), {"seed": cell.seed}]
    return resolve(cls.Config, *layers).adapted(dataset.graph)


@cache
def loaded(name: str, data_dir: str | None) -> Dataset:
    """A dataset with labels and 20 random splits, or with its own where the paper uses these."""
    return load(name, data_dir=data_dir, splits="auto" if name in ("demo", "wikics") else "random")
