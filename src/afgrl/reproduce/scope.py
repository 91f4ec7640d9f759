"""What one call of `reproduce` covers, and the run specs that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from afgrl.config import Settings
from afgrl.data import Dataset, catalog
from afgrl.experiment.cache import loaded
from afgrl.methods import method_class
from afgrl.runs.spec import EvaluationPlan, RunSpec

# The settings of a quick call, where a method has them.
QUICK_SETTINGS = {
    "epochs": 6, "steps": 6, "n_components": 32, "encoder_width": 32, "predictor_width": 32, "hidden_width": 32,
    "projection_width": 32,
    "n_clusters": 10, "kmeans_iters": 3, "walk_length": 10, "window": 3, "batch_size": 128, "keep": 8,
}  # fmt: skip
# BGRL's published 10,000 epochs would take most of the time of all grids together.
GRID_SETTINGS: dict[str, dict[str, Any]] = {"bgrl": {"epochs": 1500}}
GRID_SETTINGS_NOTE = "BGRL trains for 1,500 epochs here, not 10,000."
GRID_EVALUATIONS_NOTE = (
    "Here best-epoch chooses from three epochs: the untrained encoder, the middle and the last. Values are equal where "
    "it chooses the untrained encoder."
)
# An evaluation takes as long as about a hundred epochs, so grids, which have many runs, evaluate only twice.
EVALUATIONS, GRID_EVALUATIONS = 6, 2
MAX_EVERY = 500  # epochs
PATIENT_EVERY = 50  # epochs; patience ended DGI after 220 to 880, and an earlier evaluation must exist by then


def evaluation_plan(settings: Settings, *, grid: bool = False, quick: bool = False) -> EvaluationPlan:
    """Evaluate every sixth of the training and at least every 500 epochs; in a grid, after each half. Where patience
    may end the training, evaluate at least every 50 epochs."""
    if quick:
        return EvaluationPlan(every=max(1, settings.n_steps), n_splits=3, n_fits=2, n_init=1)
    every = math.ceil(settings.n_steps / (GRID_EVALUATIONS if grid else EVALUATIONS))
    longest = PATIENT_EVERY if settings.patience else settings.n_steps if grid else MAX_EVERY
    return EvaluationPlan(every=max(1, min(every, longest)))


@dataclass(frozen=True)
class Scope:
    """What a call is restricted to."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int = 1
    grid_seeds: int | None = None  # None: as many as ``seeds``
    quick: bool = False
    is_grid: bool = False
    data_dir: str | None = None
    embedding: Callable[[RunSpec], np.ndarray | None] = lambda spec: None  # [n, d] of a cached run, if it was kept

    @property
    def grid(self) -> Scope:
        """The scope of table 1 and of the figures, which run a method many times. All runs of a grid, also those with
        published settings, are evaluated equally often: more evaluations would make best-epoch scores look better."""
        return replace(self, seeds=self.grid_seeds or self.seeds, is_grid=True)

    def spec(self, dataset: str, method: str, seed: int = 0, recipe: str = "paper", **settings: Any) -> RunSpec:
        """A run with the settings of a recipe, overridden by ``settings``. Overrides that change nothing are dropped,
        so that tables and figures share runs."""
        small = _quick_settings(method) if self.quick else ()
        base = _resolved(dataset, method, recipe, small, self.data_dir)
        changed = {name: value for name, value in settings.items() if getattr(base, name) != value}
        changed = dict(sorted({**dict(small), **changed}.items())) | {"seed": seed}
        plan = evaluation_plan(base.model_copy(update=changed), grid=self.is_grid, quick=self.quick)
        return RunSpec(dataset, method, recipe, changed, self.data_dir, splits_of(dataset), evaluation=plan)

    def grid_settings(self, method: str) -> dict[str, Any]:
        """What is shortened in a grid; the tables say so."""
        return {} if self.quick else GRID_SETTINGS.get(method, {})

    @property
    def evaluations_notes(self) -> list[str]:
        return [] if self.quick else [GRID_EVALUATIONS_NOTE]

    @property
    def grid_notes(self) -> list[str]:
        return [] if self.quick else [GRID_EVALUATIONS_NOTE, GRID_SETTINGS_NOTE]

    def dataset(self, name: str) -> Dataset:
        return loaded(name, self.data_dir, splits_of(name), None)[0]

    def available(self, wanted: Sequence[str]) -> list[str]:
        """The wanted datasets that are in scope and available locally; in a quick call all that are in scope."""
        local = {row["name"] for row in catalog(self.data_dir) if row["available"]}
        in_scope = self.datasets if self.quick else [name for name in wanted if name in self.datasets]
        return [name for name in in_scope if name in local]

    @property
    def own_sources(self) -> list[str]:
        """Files and folders among the datasets in scope."""
        known = {row["name"] for row in catalog(self.data_dir)}
        return [name for name in self.datasets if name not in known]

    def missing_notes(self, wanted: Sequence[str]) -> list[str]:
        """A note on the datasets that are not available; nothing is filled in for them."""
        available = self.available(wanted)
        missing = [name for name in wanted if name in self.datasets and name not in available]
        return [f"Not available: {', '.join(missing)}."] if missing else []


def splits_of(dataset: str) -> str:
    """As in the paper: 20 random splits, except for WikiCS, which has published ones."""
    return "auto" if dataset == "wikics" else "random"


def _quick_settings(method: str) -> tuple[tuple[str, int], ...]:
    cls = method_class(method)
    fields = cls.settings_class.model_fields
    quick = {name: value for name, value in QUICK_SETTINGS.items() if cls.trains and name in fields}
    if cls.supports_batches:  # full batches are as quick as batches on the small graphs of a quick call
        quick = {name: value for name, value in quick.items() if name != "steps"} | {"batch_size": 0}
    return tuple(quick.items())


@cache
def _resolved(
    dataset: str, method: str, recipe: str, overrides: tuple[tuple[str, Any], ...], data_dir: str | None
) -> Settings:
    splits = splits_of(dataset)
    spec = RunSpec(dataset, method, recipe, dict(overrides), data_dir, splits)
    return spec.resolved(loaded(dataset, data_dir, splits, None)[0])[1]
