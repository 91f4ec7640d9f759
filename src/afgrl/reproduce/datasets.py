"""The statistics of the datasets: published, and as loaded here."""

from __future__ import annotations

from afgrl.reproduce import paper
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec


def specs(scope: Scope) -> list[RunSpec]:
    return []


def result(scope: Scope, records: Records) -> Result:
    columns = [Column("dataset")]
    for name in paper.Statistics._fields:
        columns += [Column(f"{name} published", 0), Column(name, 0)]
    rows = []
    for name in scope.available(paper.DATASETS):
        dataset = scope.dataset(name)
        graph = dataset.graph
        ours = paper.Statistics(graph.n, graph.n_edges, graph.n_features, dataset.n_classes)
        known = paper.STATISTICS.get(name, (None,) * len(ours))
        row: list[Entry] = [name]
        for published, counted in zip(known, ours, strict=True):
            row += [published, counted]
        rows.append(row)
    notes = [*scope.missing_notes(paper.DATASETS), "Each edge counts once, without self-loops and duplicates."]
    return Result("Statistics of the datasets", [Table("Statistics of the datasets", columns, rows)], notes=notes)
