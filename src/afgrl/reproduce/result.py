"""What a module of this package returns: tables, pictures and notes, made from the records of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from afgrl.experiment.cache import Record
from afgrl.reproduce.layout import Table, markdown
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec

Records = dict[RunSpec, Record]
PROTOCOLS = ("last-epoch", "best-epoch")


@dataclass(frozen=True)
class Result:
    """A table or figure of the paper, and ours."""

    title: str
    tables: Sequence[Table]
    pictures: dict[str, Callable[[], Figure]] = field(default_factory=dict)  # by file name
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The title, tables and notes."""
        lines = [f"## {self.title}", "", *map(markdown, self.tables), *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"


def seeds_of(records: Records, scope: Scope, dataset: str, method: str, **settings: Any) -> list[Record]:
    """The available records of one run per seed; ``settings`` may include a recipe."""
    specs = [scope.spec(dataset, method, seed, **settings) for seed in range(scope.seeds)]
    return [records[spec] for spec in specs if spec in records]
