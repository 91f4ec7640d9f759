"""Table 3: node clustering."""

from __future__ import annotations

from afgrl.reproduce import paper, scores
from afgrl.reproduce.result import Records, Result, Scope
from afgrl.reproduce.scores import cells


def result(scope: Scope, records: Records) -> Result:
    shown = [
        scores.Score("clustering", name, title, 4) for name, title in (("nmi", "NMI"), ("homogeneity", "homogeneity"))
    ]
    return scores.result("Table 3: node clustering", scope, records, shown, paper.CLUSTERING)


__all__ = ["cells", "result"]
