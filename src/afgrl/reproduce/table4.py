"""Table 4: similarity search."""

from __future__ import annotations

from afgrl.reproduce import paper, scores
from afgrl.reproduce.result import Records, Result, Scope
from afgrl.reproduce.scores import cells


def result(scope: Scope, records: Records) -> Result:
    shown = [scores.Score("similarity", name, name.capitalize(), 4) for name in ("sim@5", "sim@10")]
    return scores.result("Table 4: similarity search", scope, records, shown, paper.SIMILARITY)


__all__ = ["cells", "result"]
