"""Table 2: node classification."""

from __future__ import annotations

from dataclasses import replace

from afgrl.reproduce import paper, scores
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.reproduce.scores import specs

PUBLISHED = {
    method: tuple(None if value is None else (value,) for value in values) for method, values in paper.ACCURACY.items()
}


def result(scope: Scope, records: Records) -> Result:
    accuracy = scores.Metric("classification", "accuracy", "accuracy %", 2)
    made = scores.result("Table 2: node classification", scope, records, [accuracy], PUBLISHED)
    return replace(made, notes=[*made.notes, scores.SHORT_VECTORS])


__all__ = ["result", "specs"]
