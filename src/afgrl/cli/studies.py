"""Commands that measure: bench, reproduce, doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from afgrl.cli.app import check_folder, command, silent, split_names, stderr, stdout
from afgrl.cli.options import DataDir, Device, Json, Quiet, Recipe, Set
from afgrl.errors import AfgrlError


@command
def bench(
    datasets: Annotated[str, typer.Option("--datasets", help="Names, separated by commas.")] = "",
    methods: Annotated[
        str, typer.Option("--methods", help="Time whole epochs of these methods: names separated by commas, or all.")
    ] = "",
    default: Annotated[
        bool,
        typer.Option(
            "--default",
            help="Time the default settings from a graph to its vectors, beside full batches and PyG's DGI.",
        ),
    ] = False,
    recipe: Recipe = "paper",
    device: Device = "auto",
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit for each measurement.")] = 20.0,
    assignments: Set = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the results as JSON to this file.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the time of an epoch: reference, fast path, and the limit of this device."""
    from afgrl.bench import measure_speed
    from afgrl.cli import tables
    from afgrl.config import settings_from_assignments
    from afgrl.runs.files import replace_file

    if out:
        check_folder(out)
    answer = measure_speed(
        split_names(datasets), methods="all" if methods == "all" else split_names(methods), default=default,
        recipe=recipe, device=device, seconds=seconds, settings=settings_from_assignments(assignments or []),
        data_dir=data_dir, message=silent if quiet else stderr.print,
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
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="all, overview, claims, best-epoch, table1, table2, table3, table4, since (methods since the paper), "
            "datasets, figure-ratio, figure-sensitivity, figure-ablation, figure-dimension or figure-tsne.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results and of the run cache.")] = Path(
        "reproduction"
    ),
    datasets: Annotated[
        str, typer.Option("--datasets", help="Names, separated by commas; for since also files with labels.")
    ] = "",
    methods: Annotated[str, typer.Option("--methods", help="Names, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Number of training seeds.")] = 1,
    grid_seeds: Annotated[
        int | None,
        typer.Option("--grid-seeds", help="Number of training seeds in table 1 and the figures; default: --seeds."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small models and few epochs, on the given datasets: a smoke test.")
    ] = False,
    cached_only: Annotated[
        bool, typer.Option("--cached-only", help="Train nothing; leave out what needs a run that is not cached.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", help="Runs in parallel; several GPUs take turns.")] = 1,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute a table or figure of the paper beside the published values; runs are cached and shared."""
    from afgrl.reproduce import layout
    from afgrl.reproduce.pipeline import reproduce_results

    results = reproduce_results(
        what, out, device, datasets=split_names(datasets), methods=split_names(methods),
        seeds=seeds, grid_seeds=grid_seeds, quick=quick, cached_only=cached_only, workers=workers, data_dir=data_dir,
        message=silent if quiet else stderr.print,
    )  # fmt: skip
    if as_json:
        counts = {name: len(result.tables) for name, result in results.items()}
        print(json.dumps({"folder": str(out), "results": counts}))
        return
    for result in results.values():
        for table in result.tables:
            stdout.print(layout.terminal(table))
        for note in result.notes:
            stdout.print(note, style="dim", highlight=False)
    print(f"Saved to {out}: tables, pictures and reproduction.html.")


@command
def doctor(data_dir: DataDir = None, as_json: Json = False) -> None:
    """What this machine has, and whether afgrl works on it."""
    from afgrl.cli import tables
    from afgrl.doctor import examine

    findings = examine(data_dir)
    if as_json:
        print(json.dumps(findings, indent=1))
    else:
        stdout.print(tables.findings(findings))
    if not findings["works"]:
        raise SystemExit(1)
