"""Table 4: similarity search."""

from __future__ import annotations

from afgrl.reproduce import paper, scores
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.reproduce.scores import specs


def result(scope: Scope, records: Records) -> Result:
    shown = [scores.Metric("similarity", name, name.capitalize(), 4) for name in ("sim@5", "sim@10")]
    return scores.result("Table 4: similarity search", scope, records, shown, paper.SIMILARITY)


__all__ = ["result", "specs"]
