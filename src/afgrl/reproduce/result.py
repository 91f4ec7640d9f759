"""What a module of this package gives: which trainings it needs, and what is made of their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from afgrl import config
from afgrl.data import catalog
from afgrl.methods import methods
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Table
from afgrl.reproduce.looks import GRID, QUICK, THOROUGH, Effort, Record

Records = dict[Cell, Record]
PROTOCOLS = ("label-free", "paper")
# Small and quick, for those settings that a method has.
QUICK_SETTINGS = {
    "epochs": 10, "n_components": 32, "predictor_width": 32, "hidden_width": 32, "projection_width": 32,
    "n_clusters": 10, "kmeans_iters": 3, "walk_length": 10, "window": 3, "batch_size": 128, "keep": 8,
}  # fmt: skip


# BGRL's published 10,000 epochs would take most of the time of all grids together.
GRID_SETTINGS: dict[str, dict[str, Any]] = {"bgrl": {"epochs": 1500}}
GRID_NOTE = "BGRL is trained for 1,500 epochs here, not 10,000."
LOOKS_NOTE = (
    "The `paper` protocol picks from three epochs here: the first, which is untrained, the middle one and the last. "
    "Where the first is picked, values coincide."
)


@dataclass(frozen=True)
class Scope:
    """What a call was restricted to."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int = 1
    grid_seeds: int | None = None  # where a method is trained many times over; None: as many
    quick: bool = False
    effort: Effort = THOROUGH
    data_dir: str | None = None
    vectors: Callable[[Cell], np.ndarray | None] | None = None  # of a training, for the figures that show them

    def cell(self, dataset: str, method: str, seed: int = 0, recipe: str = "paper", **settings: Any) -> Cell:
        """A training with the settings of a recipe but for ``settings``; a quick one is small besides."""
        cls = methods()[method]
        small = {
            name: value for name, value in QUICK_SETTINGS.items() if name in cls.Config.model_fields and cls.trains
        }
        told = self._published(method, recipe, dataset)
        settings = {name: value for name, value in settings.items() if told.get(name, ...) != value}
        chosen = {**(small if self.quick else {}), **settings}
        effort = QUICK if self.quick else self.effort
        return Cell(dataset, method, seed, recipe, tuple(sorted(chosen.items())), effort)

    def _published(self, method: str, recipe: str, dataset: str) -> dict[str, Any]:
        """A recipe's own settings: to name one of them changes nothing, and the training is shared."""
        fields = methods()[method].Config.model_fields
        own = {name: field.default for name, field in fields.items()} | config.recipe(method, recipe, dataset)
        return {} if self.quick else own

    @property
    def grid(self) -> Scope:
        """As it is for table 1 and the figures. All points are looked at alike, those of published settings too: the
        paper's protocol picks the best of its looks, so more of them would let a setting seem better."""
        return replace(self, seeds=self.grid_seeds or self.seeds, effort=GRID)

    def in_grid(self, method: str) -> dict[str, Any]:
        """What is shortened where a method is trained many times over; the tables say so."""
        return {} if self.quick else GRID_SETTINGS.get(method, {})

    @property
    def looks_notes(self) -> list[str]:
        return [] if self.quick else [LOOKS_NOTE]

    @property
    def grid_notes(self) -> list[str]:
        return [] if self.quick else [LOOKS_NOTE, GRID_NOTE]

    def at_hand(self, wanted: Sequence[str]) -> list[str]:
        """Those of the wanted datasets that are asked for and here; in a quick call whatever is asked for."""
        here = {row["name"] for row in catalog(self.data_dir) if row["at_hand"]}
        asked = self.datasets if self.quick else [name for name in wanted if name in self.datasets]
        return [name for name in asked if name in here]

    def absent(self, wanted: Sequence[str]) -> list[str]:
        """A note on those that are not at hand: nothing is filled in for them."""
        asked = [name for name in wanted if name in self.datasets]
        missing = [name for name in asked if name not in self.at_hand(wanted)]
        return [f"Not at hand: {', '.join(missing)}."] if missing else []


@dataclass(frozen=True)
class Result:
    """A table or figure of the paper, and ours."""

    title: str
    tables: Sequence[Table]
    pictures: dict[str, Callable[[], Figure]] = field(default_factory=dict)  # by the name of the file
    notes: Sequence[str] = ()


def seeds_of(records: Records, scope: Scope, dataset: str, method: str, **settings: Any) -> list[Record]:
    """The records of one training for each seed, of those that are there."""
    cells = [scope.cell(dataset, method, seed, **settings) for seed in range(scope.seeds)]  # settings may name a recipe
    return [records[cell] for cell in cells if cell in records]
