"""All methods at a glance: what one gets without labels, and what the paper reports."""

from __future__ import annotations

from afgrl.reproduce import paper, scores, table2
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, Scope, seeds_of

SCORES = (
    (scores.Score("classification", "accuracy", "accuracy %", 2), table2.PUBLISHED),
    (scores.Score("clustering", "nmi", "NMI", 3), paper.CLUSTERING),
    (scores.Score("similarity", "sim@5", "Sim@5", 3), paper.SIMILARITY),
)


def cells(scope: Scope) -> list[Cell]:
    return scores.cells(scope)


def result(scope: Scope, records: Records) -> Result:
    notes = [
        *scope.absent(paper.DATASETS),
        "The vectors of the last epoch, which takes no label to choose; in brackets what the paper reports, after "
        "choosing the epoch with labels. OOM: out of memory in the paper.",
        "`raw`, `hops` ([X | SX | S²X]) and `random` (an encoder as it is before training) are not trained.",
        "The rule of `afgrl, default` was made by looking at labeled scores of these same graphs, so that its rows "
        "are no estimate for a graph nobody has seen.",
    ]
    tables = [_table(scope, records, score, published) for score, published in SCORES]
    return Result("All methods at a glance", tables, notes=notes)


def _table(scope: Scope, records: Records, score: scores.Score, published: scores.Published) -> Table:
    datasets = scope.at_hand(paper.DATASETS)
    rows: list[list[Entry]] = []
    for method, recipe in scores.rows(scope):
        row: list[Entry] = [method if recipe == "paper" else f"{method}, {recipe}"]
        for dataset in datasets:
            found = seeds_of(records, scope, dataset, method, recipe=recipe)
            known = scores.published_value(published, dataset, method) if recipe == "paper" else None
            if found:
                mean, _ = over_seeds([own["label-free"][score.task][score.name] for own in found])
                row.append(f"{mean:.{score.digits}f}{_bracketed(known, score.digits)}")
            else:
                row.append(None)
        rows.append(row)
    return Table(score.title, [Column("method"), *map(Column, datasets)], rows)


def _bracketed(known: Entry, digits: int) -> str:
    return "" if known is None else f" ({known})" if isinstance(known, str) else f" ({known:.{digits}f})"
