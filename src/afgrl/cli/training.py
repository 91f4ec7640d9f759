"""Commands that learn and judge: demo, fit, embed, evaluate."""

from __future__ import annotations

import functools
import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from afgrl.cli.app import check_folder, command, device_named, display, file_options, found, stderr, stdout
from afgrl.cli.arguments import (
    ColumnKinds,
    ConfigFile,
    DataDir,
    Device,
    Encoding,
    Force,
    IdColumn,
    Json,
    KnnGraph,
    LabelColumn,
    Method,
    NodesFile,
    Out,
    Quiet,
    Recipe,
    RunPath,
    Seed,
    Set,
    Source,
    SourceColumn,
    Splits,
    TargetColumn,
    WeightColumn,
)
from afgrl.errors import UserError

# Names of files and nodes are shown as they are.
_say = functools.partial(stderr.print, markup=False, emoji=False, highlight=False, style="dim")
RESUMING = "--resume goes on with the run named by --out, with that run's own settings"
WITH_RESUME = {"source", "out", "resume", "device", "data_dir", "as_json", "quiet"}


@command
def demo(out: Out = None, device: Device = "auto", as_json: Json = False, quiet: Quiet = False) -> None:
    """Learn vectors of handwritten digits and show what training bought; no network, under a minute."""
    from afgrl import experiment
    from afgrl.order import Order

    began = time.perf_counter()
    run = _fit(Order("demo"), {}, out, device, quiet)
    scores = experiment.evaluate(run.path, device_named(device))
    _print_scores(scores, as_json, extra={"run": str(run.path)})
    if not as_json:
        print(f"\nThe run lies in {run.path} ({time.perf_counter() - began:.0f} s in all). Next:")
        print(f"  afgrl search {shlex.quote(str(run.path))} 0 -k 5     the digits most like digit number 0")


@command
def fit(
    context: typer.Context,
    source: Source,
    method: Method = "afgrl",
    recipe: Recipe = "default",
    out: Out = None,
    config: ConfigFile = None,
    assignments: Set = None,
    seed: Seed = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    splits: Splits = "auto",
    undirected: Annotated[bool, typer.Option("--undirected", help="WikiCS as an undirected graph.")] = False,
    evaluate_every: Annotated[
        int,
        typer.Option("--evaluate-every", min=0, help="Epochs between evaluations for the paper's protocol."),
    ] = 0,
    id_column: IdColumn = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    label: LabelColumn = None,
    weight: WeightColumn = None,
    nodes: NodesFile = None,
    columns: ColumnKinds = None,
    knn_graph: KnnGraph = None,
    encoding: Encoding = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn the vectors of a graph's nodes and keep them in a run folder."""
    from afgrl import config as settings
    from afgrl import experiment
    from afgrl.order import Order, located

    began = time.perf_counter()
    if resume:
        if out is None:
            raise UserError(f"{RESUMING}.")
        _refuse_beside_resume(context)
        if experiment.opened(out)[1].source not in (source, found(source)):
            raise UserError(f"The run {str(out)!r} was trained on {experiment.opened(out)[1].source!r}.")
        run = experiment.resume(out, device_named(device), data_dir=data_dir, display=display(quiet))
    else:
        options = file_options(
            id_column, source_column, target_column, label, weight, nodes, columns, knn_graph, encoding
        )
        directed = False if undirected else None
        data_dir = data_dir and located(data_dir)
        order = Order(found(source), method, recipe, data_dir, splits, directed, evaluate_every, options)
        layers = settings.from_file(config) if config else {}
        layers |= settings.from_assignments(assignments or [])
        layers |= {} if seed is None else {"seed": seed}
        run = _fit(order, layers, out, device, quiet, force=force)
    last = run.lines("history.jsonl")[-1:]
    answer = {
        "run": str(run.path),
        "seconds": round(time.perf_counter() - began, 2),
        **(last[0] if last else {}),
    }
    if as_json:
        print(json.dumps(answer))
    else:
        then = "evaluate" if run.data().get("classes") else "report"
        command_line = f"afgrl {then} {shlex.quote(str(run.path))}"
        print(f"The run lies in {run.path} ({answer['seconds']} s). Next: {command_line}")


@command
def embed(
    run_path: RunPath,
    graph: Annotated[str | None, typer.Option("--graph", help="New nodes and edges; by default the run's own.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A file; by default in the run folder.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Join no new node to one of the training.")] = False,
    form: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, npy, npz or lance; by default as --out ends.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Vectors of a graph by a trained run, without training."""
    from afgrl import experiment, vectors
    from afgrl.order import short_name

    if alone and not graph:
        raise UserError("--alone is about new nodes, which --graph names.")
    run, order, _ = experiment.opened(run_path)
    ending = out.suffix.removeprefix(".") if out else ""
    form = form or (ending if ending in vectors.FORMATS else "parquet")
    file = out or run.embedding_file(short_name(graph) if graph else None, form)
    if file.exists() and not force and (out or graph):
        raise UserError(f"The file {str(file)!r} exists; --force replaces it, --out names another.")
    check_folder(file)
    vectors.check_format(form)
    if graph:
        ids, tensor = experiment.embed_new(
            run, order, graph, device_named(device), data_dir=data_dir, alone=alone, say=_say
        )
        rows = tensor.cpu().numpy()
    else:  # as they were trained, wherever the source is by now
        ids, rows = run.embedding()
    changed = vectors.write(file, ids, rows, form)
    answer = {"file": str(file), "nodes": rows.shape[0], "width": rows.shape[1], "ids_changed": changed}
    if as_json:
        print(json.dumps(answer))
        return
    print(f"{answer['nodes']} vectors of width {answer['width']} in {file}")
    if changed:
        print(f"Ids that a spreadsheet would compute, and now begin with an apostrophe: {changed:,}.")


@command
def evaluate(run_path: RunPath, device: Device = "auto", data_dir: DataDir = None, as_json: Json = False) -> None:
    """Classification, clustering and similarity scores of a run, beside what needs no training."""
    from afgrl import experiment

    _print_scores(experiment.evaluate(run_path, device_named(device), data_dir=data_dir), as_json)


def _fit(
    order: Any, settings: dict[str, Any], out: Path | None, device: str, quiet: bool, *, force: bool = False
) -> Any:
    from afgrl import experiment

    say = None if quiet else _say
    return experiment.fit(order, settings, out, device_named(device), force=force, display=display(quiet), say=say)


def _refuse_beside_resume(context: typer.Context) -> None:
    """What a run was asked to be stands in its config.toml, and other words would go unheard."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in WITH_RESUME and source is not None and source.name == "COMMANDLINE":
            raise UserError(f"{RESUMING}, and does not take {parameter.opts[0]}.")


def _print_scores(scores: dict[str, Any], as_json: bool, *, extra: dict[str, Any] | None = None) -> None:
    from afgrl import tables

    if as_json:
        print(json.dumps({**scores, **(extra or {})}, indent=1))
    else:
        stdout.print(tables.scores(scores))
