"""Commands about data: datasets, check, estimate."""

from __future__ import annotations

import json

from afgrl.cli.app import command, file_options, found, stdout
from afgrl.cli.arguments import (
    ColumnKinds,
    DataDir,
    Encoding,
    IdColumn,
    Json,
    KnnGraph,
    LabelColumn,
    NodesFile,
    Set,
    Source,
    SourceColumn,
    TargetColumn,
    WeightColumn,
)


@command
def datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the datasets known by name, and where each would come from."""
    from afgrl import tables
    from afgrl.data import catalog

    rows = catalog(data_dir)
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        stdout.print(tables.catalog(rows))


@command
def check(
    source: Source,
    id_column: IdColumn = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    label: LabelColumn = None,
    weight: WeightColumn = None,
    nodes: NodesFile = None,
    columns: ColumnKinds = None,
    knn_graph: KnnGraph = None,
    encoding: Encoding = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What is understood of a graph, what was repaired in it, and what looks suspicious."""
    from afgrl import tables
    from afgrl.data import load
    from afgrl.data.check import check as examine

    options = file_options(id_column, source_column, target_column, label, weight, nodes, columns, knn_graph, encoding)
    answer = examine(load(found(source), data_dir=data_dir, options=options))
    if as_json:
        print(json.dumps(answer, indent=1))
    else:
        for table in tables.check(answer):
            stdout.print(table)


@command
def estimate(
    source: Source,
    assignments: Set = None,
    id_column: IdColumn = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    label: LabelColumn = None,
    weight: WeightColumn = None,
    nodes: NodesFile = None,
    columns: ColumnKinds = None,
    knn_graph: KnnGraph = None,
    encoding: Encoding = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Memory and time that training AFGRL would take on this machine, and the settings that fit."""
    from afgrl import tables
    from afgrl.config import from_assignments
    from afgrl.data import load
    from afgrl.forecast import forecast

    options = file_options(id_column, source_column, target_column, label, weight, nodes, columns, knn_graph, encoding)
    dataset = load(found(source), data_dir=data_dir, options=options)
    answer = forecast(dataset, from_assignments(assignments or []))
    if as_json:
        print(json.dumps(answer, indent=1))
    else:
        stdout.print(tables.forecast(answer))
