"""Commands about data: datasets, check, estimate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from afgrl import DEFAULT_METHOD
from afgrl.cli.app import command, find_source, print_json, stdout
from afgrl.cli.options import DataDir, Json, Set, Source, with_read_options


@command
def datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the datasets known by name, and which are available locally."""
    from afgrl.cli import tables
    from afgrl.data import catalog

    rows = catalog(data_dir)
    if as_json:
        print_json(rows)
    else:
        stdout.print(tables.catalog(rows))


@command
@with_read_options
def check(source: Source, read: Any, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show how a source is read: counts, what was fixed, and warnings."""
    from afgrl.cli import tables
    from afgrl.data import load
    from afgrl.data.describe import describe_dataset

    answer = describe_dataset(load(find_source(source), data_dir=data_dir, options=read))
    if as_json:
        print_json(answer)
    else:
        for table in tables.check(answer):
            stdout.print(table)


@command
@with_read_options
def estimate(
    source: Source,
    read: Any,
    method: Annotated[str, typer.Option("--method", help="node_embedder or afgrl.")] = DEFAULT_METHOD,
    assignments: Set = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Estimate memory, disk and time of training on this machine, and the settings that fit."""
    from afgrl.cli import tables
    from afgrl.config import settings_from_assignments
    from afgrl.cost.disk import check_reading
    from afgrl.cost.forecast import estimate_cost
    from afgrl.data import load

    found = find_source(source)
    reading = check_reading(found, read)
    dataset = load(found, data_dir=data_dir, options=read)
    answer = estimate_cost(dataset, settings_from_assignments(assignments or []), reading, method)
    if as_json:
        print_json(answer)
    else:
        for table in tables.forecast(answer):
            stdout.print(table)
