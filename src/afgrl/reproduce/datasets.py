"""The table of datasets: what the paper counts, and what was loaded here."""

from __future__ import annotations

from afgrl.reproduce import paper
from afgrl.reproduce.cells import Cell, loaded
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.result import Records, Result, Scope


def cells(scope: Scope) -> list[Cell]:
    return []


def result(scope: Scope, records: Records) -> Result:
    columns = [Column("dataset")]
    for name in paper.Statistics._fields:
        columns += [Column(f"{name} published", 0), Column(name, 0)]
    rows = []
    for dataset in scope.at_hand(paper.DATASETS):
        graph = loaded(dataset, scope.data_dir).graph
        ours = paper.Statistics(graph.n, graph.n_edges, graph.n_features, loaded(dataset, scope.data_dir).n_classes)
        known = paper.STATISTICS.get(dataset, (None,) * len(ours))
        row: list[Entry] = [dataset]
        for published, counted in zip(known, ours, strict=True):
            row += [published, counted]
        rows.append(row)
    notes = [
        *scope.absent(paper.DATASETS),
        "Edges are counted once, without loops and duplicates.",
    ]
    return Result("Statistics of the datasets", [Table("Statistics of the datasets", columns, rows)], notes=notes)
