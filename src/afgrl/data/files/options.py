"""What a user may say about their files, where a guess would be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from afgrl.errors import UserError, unknown

Kind = Literal["number", "category", "text", "ignore"]


@dataclass(frozen=True)
class Options:
    """None is a guess, which is shown."""

    id: str | None = None  # column of the nodes' names
    source: str | None = None  # columns of an edge's two ends
    target: str | None = None
    label: str | None = None  # column that training never sees
    weight: str | None = None  # column of the edges
    nodes: str | None = None  # a file of nodes that does not lie beside the edges
    columns: tuple[str, ...] = ()  # name=kind, for columns whose kind was guessed wrong
    knn_graph: int | None = None  # make edges to that many nearest nodes
    encoding: str | None = None

    @property
    def kinds(self) -> dict[str, Kind]:
        chosen: dict[str, Kind] = {}
        for text in self.columns:
            name, equals, kind = text.rpartition("=")
            if not equals or not name:
                raise UserError(f"A column's kind is given as name=kind, not {text!r}.")
            if kind not in get_args(Kind):
                raise unknown("kind of column", kind, get_args(Kind))
            chosen[name] = kind  # type: ignore[assignment]
        return chosen
