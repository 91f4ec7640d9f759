"""What it gives to pick the epoch with labels: the paper's scores at the last epoch, and at the one picked."""

from __future__ import annotations

from afgrl.methods import methods
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from afgrl.reproduce import paper, scores, table2
from afgrl.reproduce.cells import Cell, Record
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, Scope, seeds_of

SCORES = (
    (scores.Score("classification", "accuracy", "accuracy %", 2), table2.PUBLISHED),
    (scores.Score("clustering", "nmi", "NMI", 4), paper.CLUSTERING),
    (scores.Score("similarity", "sim@5", "Sim@5", 4), paper.SIMILARITY),
)


def cells(scope: Scope) -> list[Cell]:
    return [cell for cell in scores.cells(scope) if cell.method in _chosen(scope) and cell.recipe == "paper"]


def _chosen(scope: Scope) -> list[str]:
    """The methods that train, and not with labels."""
    return [name for name in scope.methods if methods()[name].trains and name != SupervisedGCNMethod.name]


def result(scope: Scope, records: Records) -> Result:
    tables = [_table(scope, records, score, published) for score, published in SCORES]
    notes = [
        *scope.absent(paper.DATASETS),
        "Both columns are the paper's protocol; they differ in the epoch alone. The epoch of a classifier is picked by "
        "validation accuracy, that of clusters and of similar nodes by the score that is reported, on all labels.",
    ]
    return Result("What picking the epoch with labels gives", tables, notes=notes)


def _table(scope: Scope, records: Records, score: scores.Score, published: scores.Published) -> Table:
    digits = score.digits
    columns = [
        Column("dataset"), Column("method"), Column("published", digits), Column("last epoch", digits),
        Column("picked epoch", digits), Column("gain", digits, signed=True), Column("which"),
    ]  # fmt: skip
    rows: list[list[Entry]] = []
    for dataset in scope.at_hand(paper.DATASETS):
        for method in _chosen(scope):
            found = [each for each in seeds_of(records, scope, dataset, method, recipe="paper") if "last" in each]
            if found:
                last, picked = (_mean(found, protocol, score) for protocol in ("last", "paper"))
                known = scores.published_value(published, dataset, method)
                rows.append([dataset, method, known, last, picked, picked - last, _epochs(found, score.task)])
    return Table(score.title, columns, rows)


def _mean(found: list[Record], protocol: str, score: scores.Score) -> float:
    return over_seeds([record[protocol][score.task][score.name] for record in found])[0]


def _epochs(found: list[Record], task: str) -> str:
    picked = ", ".join(f"{record['paper'][task].get('epoch', 'none')}" for record in found)
    return f"{picked} of {found[0]['epochs']}"
