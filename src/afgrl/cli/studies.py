"""Commands that measure: bench, reproduce, doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from afgrl.cli.app import check_folder, command, device_named, names_in, stderr, stdout
from afgrl.cli.arguments import DataDir, Device, Json, Quiet, Recipe, Set
from afgrl.errors import AfgrlError


@command
def bench(
    datasets: Annotated[str, typer.Option("--datasets", help="Names, separated by commas.")] = "",
    methods: Annotated[str, typer.Option("--methods", help="Names, separated by commas, or all; only epochs.")] = "",
    recipe: Recipe = "paper",
    device: Device = "auto",
    seconds: Annotated[float, typer.Option("--seconds", help="At most, for each figure.")] = 20.0,
    assignments: Set = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also keep the answer as JSON in this file.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How fast an epoch is: the reference, the fast path and the limit of this device."""
    from afgrl import tables
    from afgrl.bench import DATASETS
    from afgrl.bench import bench as measure
    from afgrl.config import from_assignments
    from afgrl.methods import methods as known_methods
    from afgrl.writing import replace_file

    names = names_in(datasets) or list(DATASETS)
    chosen = list(known_methods()) if methods == "all" else names_in(methods)
    if out:
        check_folder(out)
    answer = measure(
        names, device_named(device), recipe_name=recipe, data_dir=data_dir, seconds=seconds,
        settings=from_assignments(assignments or []), methods=chosen,
        say=(lambda line: None) if quiet else stderr.print,
    )  # fmt: skip
    if out:
        replace_file(out, lambda file: file.write_text(json.dumps(answer, indent=1) + "\n"))
    if as_json:
        print(json.dumps(answer, indent=1))
    else:
        for table in tables.bench(answer):
            stdout.print(table)
    if refused := answer.get("refused"):
        raise AfgrlError(" ".join(refused))


@command
def reproduce(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="all, overview, claims, choice, table1 to 4, figure-…")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results and the trainings.")] = Path("reproduction"),
    datasets: Annotated[str, typer.Option("--datasets", help="Names, separated by commas.")] = "",
    methods: Annotated[str, typer.Option("--methods", help="Names, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Trainings of each kind.")] = 1,
    grid_seeds: Annotated[
        int | None, typer.Option("--grid-seeds", help="Trainings of each point of table 1 and the figures, if others.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small and short, on the datasets named: to see it work.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Train nothing; leave out what needs a training that is not there.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", help="Trainings at a time; several GPUs take turns.")] = 1,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """A table or figure of the paper, with ours beside it; trainings are kept and shared."""
    from afgrl.reproduce import layout, paper
    from afgrl.reproduce import reproduce as make

    made = make(
        what, out, device_named(device), datasets=names_in(datasets) or paper.DATASETS, methods=names_in(methods),
        seeds=seeds, grid_seeds=grid_seeds, quick=quick, kept=kept, workers=workers, data_dir=data_dir,
        say=(lambda line: None) if quiet else stderr.print,
    )  # fmt: skip
    if as_json:
        print(json.dumps({"folder": str(out), "results": {name: len(result.tables) for name, result in made.items()}}))
        return
    for result in made.values():
        for table in result.tables:
            stdout.print(layout.terminal(table))
        for note in result.notes:
            stdout.print(note, style="dim", highlight=False)
    print(f"Tables, pictures and reproduction.html lie in {out}.")


@command
def doctor(data_dir: DataDir = None, as_json: Json = False) -> None:
    """What this machine has, and whether afgrl works on it."""
    from afgrl import tables
    from afgrl.doctor import examine

    findings = examine(data_dir)
    if as_json:
        print(json.dumps(findings, indent=1))
    else:
        stdout.print(tables.findings(findings))
    if not findings["works"]:
        raise SystemExit(1)
