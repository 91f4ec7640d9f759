"""Commands that answer from a run: search, cluster, report, explore, export."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from afgrl.cli.app import command, stdout
from afgrl.cli.arguments import Json, RunPath


@command
def search(
    run_path: RunPath,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Nodes by their ids.")],
    k: Annotated[int, typer.Option("-k", help="Neighbours of each.")] = 10,
    as_json: Json = False,
) -> None:
    """The nodes most similar to given ones."""
    from afgrl import tables
    from afgrl.runs import Run
    from afgrl.search import search as nearest

    found = nearest(Run.open(run_path), ids, k)
    if as_json:
        print(json.dumps(found))
    else:
        for name, neighbours in found.items():
            stdout.print(tables.neighbours(name, neighbours))
