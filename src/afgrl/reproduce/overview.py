"""All methods in one table per score: last-epoch scores beside the published ones."""

from __future__ import annotations

from afgrl.reproduce import paper, scores, table2
from afgrl.reproduce.layout import Column, Entry, Table, over_seeds
from afgrl.reproduce.result import Records, Result, seeds_of
from afgrl.reproduce.scope import Scope
from afgrl.reproduce.scores import specs

SCORES = (
    (scores.Metric("classification", "accuracy", "accuracy %", 2), table2.PUBLISHED),
    (scores.Metric("clustering", "nmi", "NMI", 3), paper.CLUSTERING),
    (scores.Metric("similarity", "sim@5", "Sim@5", 3), paper.SIMILARITY),
)


def result(scope: Scope, records: Records) -> Result:
    notes = [
        *scope.missing_notes(paper.DATASETS),
        "last-epoch: no label is used to choose the epoch. In parentheses: the published value, for which the epoch "
        "was chosen with labels. OOM: out of memory in the paper.",
        "`raw`, `hops` ([X | SX | S²X]), `svd` (their principal directions), `ppr` (the PageRank average of `svd`) and "
        "`random` (an untrained encoder) are not trained.",
        "The rule behind `node_embedder` was chosen from labeled scores of these same graphs, so its rows do not "
        "estimate the scores on other graphs.",
    ]
    tables = [_table(scope, records, score, published) for score, published in SCORES]
    return Result("All methods at a glance", tables, notes=notes)


def _table(scope: Scope, records: Records, score: scores.Metric, published: scores.Published) -> Table:
    datasets = scope.available(paper.DATASETS)
    rows: list[list[Entry]] = []
    for method, recipe in scores.rows(scope):
        row: list[Entry] = [scores.row_name(method, recipe)]
        for dataset in datasets:
            found = seeds_of(records, scope, dataset, method, recipe=recipe)
            known = scores.published_value(published, dataset, method) if recipe == "paper" else None
            row.append(_cell(found, score, known) if found else None)
        rows.append(row)
    return Table(score.title, [Column("method"), *map(Column, datasets)], rows)


def _cell(found: list[dict], score: scores.Metric, known: Entry) -> str:
    mean, _ = over_seeds([record["last-epoch"][score.task][score.name] for record in found])
    shown = "" if known is None else f" ({known})" if isinstance(known, str) else f" ({known:.{score.digits}f})"
    return f"{mean:.{score.digits}f}{shown}"


__all__ = ["SCORES", "result", "specs"]
