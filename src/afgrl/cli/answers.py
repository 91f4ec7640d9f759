"""Commands that answer from a run: search, cluster, report, explore, export."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated

import typer

from afgrl.cli.app import check_folder, command, stderr, stdout
from afgrl.cli.arguments import DataDir, Force, Json, Quiet, RunPath
from afgrl.errors import UserError

say = functools.partial(stderr.print, markup=False, emoji=False)  # names of nodes are shown as they are
Map = Annotated[str, typer.Option("--map", help="How the vectors become a plane: tsne or pca.")]


@command
def search(
    run_path: RunPath,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Nodes by their ids.")],
    k: Annotated[int, typer.Option("-k", help="Neighbors of each.")] = 10,
    index: Annotated[bool, typer.Option("--index", help="By an approximate index, which is built if need be.")] = False,
    as_json: Json = False,
) -> None:
    """The nodes most similar to given ones."""
    from afgrl import tables
    from afgrl.runs import Run
    from afgrl.search import search as nearest

    found = nearest(Run.open(run_path), ids, k, index=index)
    if as_json:
        print(json.dumps(found))
    else:
        for name, neighbors in found.items():
            stdout.print(tables.neighbors(name, neighbors))
    if index:
        stderr.print(f"Found by the index ({found.by}), whose recall is {found.recall:.1%}.", highlight=False)


@command
def cluster(
    run_path: RunPath,
    k: Annotated[str, typer.Option("-k", help="Clusters: a number, or auto.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Of the first centers.")] = 0,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Groups of similar nodes, and what is typical of each."""
    from afgrl import experiment, tables
    from afgrl.runs import Run

    if k != "auto" and not k.isdigit():
        raise UserError(f"-k is a number of clusters or auto, not {k!r}.")
    answer = experiment.cluster(run_path, None if k == "auto" else int(k), seed, data_dir=data_dir, say=say)
    if as_json:
        print(json.dumps(answer, indent=1))
    else:
        stdout.print(tables.clusters(answer))
        print(f"The cluster of each node is in {Run(run_path).clusters_file}.")


@command
def report(
    run_paths: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders; several are compared.")],
    out: Annotated[Path | None, typer.Option("--out", help="An HTML file; by default in the first run.")] = None,
    map_name: Map = "tsne",
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """One HTML file that shows a run, or compares several; it needs no network."""
    from afgrl.report import report as write
    from afgrl.runs import Run

    runs = [Run.open(path) for path in run_paths]
    file = out or runs[0].report_file
    if out and out.exists() and not force:
        raise UserError(f"The file {str(out)!r} exists; --force replaces it, --out names another.")
    check_folder(file)
    write(runs, file, map_name=map_name, say=(lambda line: None) if quiet or as_json else say)
    answer = {"file": str(file), "runs": [str(run.path) for run in runs], "bytes": file.stat().st_size}
    print(json.dumps(answer) if as_json else f"The report is {file} ({file.stat().st_size / 2**20:.1f} MiB).")


@command
def explore(
    run_path: RunPath,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    map_name: Map = "tsne",
) -> None:
    """The report as a live page on this machine: search, filter, select, export."""
    from afgrl.explore import serve
    from afgrl.runs import Run

    serve(Run.open(run_path), port=port, open_browser=browser, map_name=map_name, say=say)


@command
def export(
    run_path: RunPath,
    out: Annotated[Path | None, typer.Option("--out", help="A file; by default model.onnx in the run folder.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """The trained encoder as an ONNX file, for any number of nodes and edges."""
    from afgrl.onnx import export as write
    from afgrl.runs import Run

    run = Run.open(run_path)
    file = out or run.onnx_file
    if out and file.exists() and not force:
        raise UserError(f"The file {str(file)!r} exists; --force replaces it, --out names another.")
    check_folder(file)
    said = write(run, file)
    print(json.dumps({"file": str(file), **said}) if as_json else f"The encoder of {said['method']} is in {file}.")
