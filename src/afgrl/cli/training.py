"""Commands that train and evaluate: demo, fit, embed, evaluate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from afgrl import DEFAULT_METHOD
from afgrl.amounts import counted, duration
from afgrl.cli import processes
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
    stdout,
    working,
)
from afgrl.cli.options import (
    Alone,
    ConfigFile,
    DataDir,
    Device,
    Force,
    Json,
    Method,
    Out,
    Quiet,
    Recipe,
    RunPath,
    Seed,
    Set,
    Source,
    SplitsKind,
    with_read_options,
)
from afgrl.errors import UserError

RESUME_RULE = "--resume continues the run given by --out with that run's own settings"
ALLOWED_WITH_RESUME = {"source", "out", "report", "resume", "device", "data_dir", "as_json", "quiet", "nproc"}


@command
def demo(out: Out = None, device: Device = "auto", as_json: Json = False, quiet: Quiet = False) -> None:
    """Embed handwritten digits with the default settings and score them beside vectors that need no training; no
    network, one to two minutes."""
    from afgrl.experiment.evaluation import evaluate_run
    from afgrl.runs.invocation import pasteable
    from afgrl.runs.spec import RunSpec

    started = time.perf_counter()
    run = _fit(RunSpec("demo"), out, device, quiet)
    scores = evaluate_run(run, device_of(device))
    _print_scores(run, scores, as_json, extra={"run": str(run.path)})
    if not as_json:
        print(f"Saved to {run.path} ({duration(time.perf_counter() - started)} in total). Next:")
        print(f"  {pasteable('search', run.path, 0, '-k', 5)}     the digits most similar to digit number 0")


@command
@with_read_options
def fit(
    context: typer.Context,
    source: Source,
    read: Any,
    method: Method = DEFAULT_METHOD,
    recipe: Recipe = "default",
    out: Out = None,
    config: ConfigFile = None,
    assignments: Set = None,
    seed: Seed = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    splits: SplitsKind = "auto",
    undirected: Annotated[bool, typer.Option("--undirected", help="WikiCS as an undirected graph.")] = False,
    evaluate_every: Annotated[
        int,
        typer.Option("--evaluate-every", min=0, help="Epochs between evaluations, for best-epoch evaluation."),
    ] = 0,
    report: Annotated[
        bool, typer.Option("--report", help="Also cluster the nodes and write report.html into the run folder.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    nproc: Annotated[
        int | None,
        typer.Option("--nproc", min=1, help="Train with this many processes on this machine, started by torchrun."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn the embeddings of a graph's nodes and save them in a run folder."""
    from afgrl import config as configuration
    from afgrl.runs.folder import HISTORY
    from afgrl.runs.invocation import pasteable
    from afgrl.runs.spec import EvaluationPlan, RunSpec, absolute_source

    started = time.perf_counter()
    if resume:
        job: Any = _resumable_run(context, source, out)
    else:
        settings = configuration.settings_from_file(config) if config else {}
        settings |= configuration.settings_from_assignments(assignments or [])
        settings |= {} if seed is None else {"seed": seed}
        job = RunSpec(
            find_source(source), method, recipe, settings, data_dir and absolute_source(data_dir), splits,
            False if undirected else None, EvaluationPlan(evaluate_every), read,
        )  # fmt: skip
    if nproc and not processes.is_worker():
        processes.launch(nproc, job, out)
        return
    if processes.is_worker():
        run = processes.as_worker(job, out, device, data_dir, force=force, quiet=quiet)
        if run is None:  # another process reports
            return
    elif isinstance(job, RunSpec):
        run = _fit(job, out, device, quiet, force=force)
    else:
        run = _resume(job, device, data_dir, quiet)
    last = run.lines(HISTORY)[-1:]
    seconds = max(0.0, round(time.perf_counter() - started, 2))  # the clock of a machine that was moved can go back
    if report:
        _write_report(run, data_dir, silent if quiet or as_json else message)
    if as_json:
        file = {"report": str(run.report_file)} if report else {}
        print(json.dumps({"run": str(run.path), "seconds": seconds, **file, **(last[0] if last else {})}))
    else:
        following = "evaluate" if run.data().get("classes") else _after_report() if report else "report"
        shown = f"; its report is {run.report_file}" if report else ""
        print(f"Saved to {run.path} ({duration(seconds)}){shown}. Next: {pasteable(following, run.path)}")


def _write_report(run: Any, data_dir: str | None, say: Callable[[str], Any]) -> None:
    from afgrl.analysis.clustering import cluster_run
    from afgrl.report import write_report

    cluster_run(run, data_dir=data_dir)
    write_report(run, run.report_file, message=say)


def _after_report() -> str:
    from afgrl.explore import missing_packages

    return "quality" if missing_packages() else "explore"


def _resume(run: Any, device: str, data_dir: str | None, quiet: bool) -> Any:
    from afgrl.experiment.training import resume

    say = silent if quiet else message
    return resume(run, device_of(device), data_dir=data_dir, display=progress_display(quiet), message=say)


def _resumable_run(context: typer.Context, source: str, out: Path | None) -> Any:
    if out is None:
        raise UserError(f"{RESUME_RULE}.")
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name not in ALLOWED_WITH_RESUME and given is not None and given.name == "COMMANDLINE":
            raise UserError(f"{RESUME_RULE}, so {parameter.opts[0]} cannot be set.")
    from afgrl.data.unpacking import home_expanded

    run = opened(out)
    trained_on = run.spec().source
    if trained_on not in (source, find_source(source), str(home_expanded(source).absolute())):
        raise UserError(f"The run {str(out)!r} was trained on {trained_on!r}.")
    return run


@command
def embed(
    run_path: RunPath,
    graph: Annotated[str | None, typer.Option("--graph", help="New nodes and edges; by default the run's own.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File; by default in the run folder.")] = None,
    alone: Alone = False,
    form: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, npy, npz or lance; by default from --out.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the vectors of a run in another format, or those of new nodes, without training."""
    from afgrl.analysis.new_nodes import embed_new_nodes
    from afgrl.runs import embeddings
    from afgrl.runs.spec import short_name

    if alone and not graph:
        raise UserError("--alone needs new nodes, given by --graph.")
    run = opened(run_path)
    form = form or (out.suffix.removeprefix(".") if out else "") or "parquet"
    embeddings.check_format(form)
    file = out or run.embedding_file(short_name(graph) if graph else None, form)
    check_new_file(file, force or not (out or graph))
    check_folder(file)
    with run.writing_file(file):
        if graph:
            new = embed_new_nodes(run, graph, device_of(device), data_dir=data_dir, alone=alone, message=message)
            ids, rows = new.ids, new.vectors
        else:
            ids, rows = run.embedding()
        if not out:
            run.note_file(file)
        changed = embeddings.write_vectors(file, ids, rows, form)
    if as_json:
        print(json.dumps({"file": str(file), "nodes": len(rows), "width": rows.shape[1], "ids_changed": changed}))
        return
    print(f"Saved {counted(len(rows), 'vector')} of width {rows.shape[1]} to {file}.")
    if changed:
        print(f"Ids that a spreadsheet would evaluate as a formula, prefixed with an apostrophe: {changed:,}.")


@command
def evaluate(
    run_path: RunPath, device: Device = "auto", data_dir: DataDir = None, as_json: Json = False, quiet: Quiet = False
) -> None:
    """Evaluate a run on classification, clustering and similarity search, beside untrained baselines."""
    from afgrl.experiment.evaluation import evaluate_run

    say = silent if quiet else message
    run = opened(run_path)
    with working("Evaluating", quiet=quiet):
        scores = evaluate_run(run, device_of(device), data_dir=data_dir, message=say)
    _print_scores(run, scores, as_json)


def _fit(spec: Any, out: Path | None, device: str, quiet: bool, *, force: bool = False) -> Any:
    from afgrl.experiment.training import fit

    say = silent if quiet else message
    return fit(spec, out, device_of(device), force=force, display=progress_display(quiet), message=say)


def _print_scores(run: Any, scores: dict[str, Any], as_json: bool, *, extra: dict[str, Any] | None = None) -> None:
    from afgrl.cli import tables
    from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS
    from afgrl.report.best import best_vectors

    if as_json:
        print_json({**scores, **(extra or {})})
        return
    for table, columns in zip(tables.scores(scores), (COLUMNS, READOUT_COLUMNS), strict=True):
        stdout.print(table)
        best = best_vectors(run, scores, columns)
        if best:
            stdout.print(Text(best.sentence))
            for name, line in best.commands.items():
                print(f"  {line}     {name}")
            print()
