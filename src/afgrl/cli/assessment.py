"""Commands that judge vectors: quality, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from afgrl.cli.app import (
    check_folder,
    check_new_file,
    command,
    device_of,
    find_source,
    message,
    opened,
    print_json,
    progress_display,
    silent,
    split_names,
    stdout,
)
from afgrl.cli.options import (
    ConfigFile,
    DataDir,
    Device,
    Force,
    Json,
    Quiet,
    Recipe,
    RunPath,
    Seed,
    Set,
    with_read_options,
)
from afgrl.errors import UserError


@command
def quality(
    run_path: RunPath,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what needs further training runs.")] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the vectors of a run without labels, beside vectors that need no training, and give a verdict."""
    from afgrl.analysis.quality.panel import assess_run
    from afgrl.cli import quality_tables

    say = silent if quiet or as_json else message
    display = progress_display(quiet or as_json)
    run = opened(run_path)
    answer = assess_run(run, device_of(device), quick=quick, data_dir=data_dir, display=display, message=say)
    if as_json:
        print_json(answer)
        return
    for table in quality_tables.quality(answer):
        stdout.print(table)
    print(answer["verdict"]["sentence"])
    print(f"Saved the panel to {run.quality_file}.")


@command
@with_read_options
def compare(
    paths: Annotated[list[str], typer.Argument(metavar="RUN…", help="Run folders, or one SOURCE with --methods.")],
    read: Any,
    methods: Annotated[
        str | None, typer.Option("--methods", help="Train these methods on SOURCE: names, separated by commas.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the runs of --methods; by default under runs/.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="HTML file; by default comparison.html with the runs.")
    ] = None,
    projection: Annotated[str, typer.Option("--map", help="2-D projection: tsne or pca.")] = "tsne",
    recipe: Recipe = "default",
    config: ConfigFile = None,
    assignments: Set = None,
    seed: Seed = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare finished runs, or train several methods on a source and compare them: one table and one HTML page."""
    from afgrl.cli import quality_tables
    from afgrl.report import compare as compare_runs
    from afgrl.report import write_report
    from afgrl.report.best import best_run

    say = silent if quiet or as_json else message
    if page:
        check_new_file(page, force, "--page")
        check_folder(page)
    if methods is None:
        runs = [opened(Path(path)) for path in paths]
        file = page or runs[0].comparison_file
    else:
        settings = _settings(config, assignments, seed)
        runs = _trained(paths, methods, out, recipe, settings, data_dir, read, device, force, quiet or as_json, say)
        file = page or runs[0].path.parent / "comparison.html"
    rows = compare_runs(runs, device=device, message=say)
    write_report(runs, file, projection=projection, message=say)
    if as_json:
        print_json({"runs": rows, "folders": [str(run.path) for run in runs], "page": str(file)})
        return
    for table in quality_tables.comparison(rows):
        stdout.print(table)
    if best := best_run(runs, [row["name"] for row in rows]):
        stdout.print(Text(best))
    print(f"Saved the page to {file}.")


def _settings(config: Path | None, assignments: list[str] | None, seed: int | None) -> dict[str, Any]:
    from afgrl import config as configuration

    settings = configuration.settings_from_file(config) if config else {}
    settings |= configuration.settings_from_assignments(assignments or [])
    return settings | ({} if seed is None else {"seed": seed})


def _trained(
    paths: list[str], methods: str, out: Path | None, recipe: str, settings: dict[str, Any], data_dir: str | None,
    read: Any, device: str, force: bool, quiet: bool, say: Any,
) -> list[Any]:  # fmt: skip
    from afgrl.experiment.several import fit_each
    from afgrl.runs.spec import RunSpec, absolute_source, short_name

    if len(paths) != 1:
        raise UserError(f"--methods trains on one source, but {len(paths)} were given.")
    names = [name for name in split_names(methods) if name]
    if not names:
        raise UserError("--methods needs at least one name, such as --methods afgrl,dgi.")
    source = find_source(paths[0])
    specs = [
        RunSpec(source, name, recipe, settings, data_dir and absolute_source(data_dir), read=read) for name in names
    ]
    folder = out or Path("runs") / f"{short_name(source)}-compare"
    return fit_each(specs, folder, device_of(device), force=force, display=progress_display(quiet), message=say)
