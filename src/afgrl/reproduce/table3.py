"""Table 3: node clustering."""

from __future__ import annotations

from afgrl.reproduce import paper, scores
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.reproduce.scores import specs


def result(scope: Scope, records: Records) -> Result:
    shown = [scores.Metric("clustering", *names, 4) for names in (("nmi", "NMI"), ("homogeneity", "homogeneity"))]
    return scores.result("Table 3: node clustering", scope, records, shown, paper.CLUSTERING)


__all__ = ["result", "specs"]
