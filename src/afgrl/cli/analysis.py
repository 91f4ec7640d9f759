"""Commands that answer questions about a run: add, remove, search, cluster, report, explore, export."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated

import typer

from afgrl.amounts import byte_size, counted
from afgrl.cli.app import (
    check_folder,
    check_new_file,
    command,
    device_of,
    message,
    opened,
    print_json,
    silent,
    stdout,
    working,
)
from afgrl.cli.options import Alone, DataDir, Device, Force, Json, Quiet, RunPath
from afgrl.errors import UserError

Map = Annotated[str, typer.Option("--map", help="2-D projection: tsne or pca.")]


@command
def add(
    run_path: RunPath,
    source: Annotated[str, typer.Argument(metavar="NEW", help="File or folder with new nodes and edges.")],
    alone: Alone = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add new nodes to a run without training; search, cluster, report and explore then answer for them too."""
    from afgrl.analysis.added_nodes import add_nodes
    from afgrl.runs.invocation import pasteable

    say = silent if quiet or as_json else message
    run, kind = opened(run_path), device_of(device)
    added = add_nodes(run, source, kind, data_dir=data_dir, alone=alone, force=force, message=say)
    if as_json:
        print(json.dumps({"run": str(run.path), "name": added.name, "nodes": len(added.ids)}))
    else:
        first = str(added.ids[0])
        following = pasteable("search", run.path, *(["--"] if first.startswith("-") else []), first)
        print(f"Added {counted(len(added.ids), 'node')} to {run.path} as {added.name!r}. Next: {following}")


@command
def remove(
    run_path: RunPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name that `afgrl add` printed.")],
    as_json: Json = False,
) -> None:
    """Remove nodes that were added to a run."""
    from afgrl.analysis.added_nodes import remove_nodes

    run = opened(run_path)
    remove_nodes(run, name)
    print(json.dumps({"run": str(run.path), "removed": name}) if as_json else f"Removed {name!r} from {run.path}.")


@command
def search(
    run_path: RunPath,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids or names of nodes.")],
    k: Annotated[int, typer.Option("-k", help="Number of neighbors.")] = 10,
    index: Annotated[bool, typer.Option("--index", help="Use an approximate index; built at first use.")] = False,
    as_json: Json = False,
) -> None:
    """Find the nodes most similar to the given ones."""
    from afgrl.analysis.neighbors import find_similar
    from afgrl.cli import tables

    run = opened(run_path)
    if index and not run.index_description_file.is_file():
        message("Building an index of all vectors; later searches in this run use it.")
    found = find_similar(run, ids, k, index=index)
    if as_json:
        print(json.dumps(found))
    else:
        for name, neighbors in found.items():
            stdout.print(tables.neighbors(found.titles[name], neighbors))
    if index:
        message(f"Found with an approximate index ({found.algorithm}); its recall is {found.recall:.1%}.")


@command
def cluster(
    run_path: RunPath,
    k: Annotated[str, typer.Option("-k", help="Number of clusters, or auto.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of k-means.")] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Cluster the vectors themselves, not their readout.")] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Group similar nodes, and describe what distinguishes each group."""
    from afgrl.analysis.clustering import cluster_run
    from afgrl.cli import tables

    if k != "auto" and not (k.isdecimal() and len(k) < 10):
        raise UserError(f"-k is a number of clusters or auto, not {k!r}.")
    run = opened(run_path)
    with working("Clustering"):
        answer = cluster_run(run, None if k == "auto" else int(k), seed=seed, plain=plain, data_dir=data_dir)
    if as_json:
        print_json(answer)
    else:
        stdout.print(tables.clusters(answer))
        print(f"Saved the cluster of each node to {run.clusters_file}.")


@command
def report(
    run_paths: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders; several are compared.")],
    out: Annotated[Path | None, typer.Option("--out", help="HTML file; by default in the first run.")] = None,
    projection: Map = "tsne",
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML file that shows a run or compares several; it needs no network."""
    from afgrl.report import write_report

    runs = [opened(path) for path in run_paths]
    file = out or runs[0].report_file
    check_new_file(file, force or not out)
    check_folder(file)
    write_report(runs, file, projection=projection, message=silent if quiet or as_json else message)
    size = file.stat().st_size
    answer = {"file": str(file), "runs": [str(run.path) for run in runs], "bytes": size}
    print(json.dumps(answer) if as_json else f"Saved the report to {file} ({byte_size(size)}).")


@command
def explore(
    run_path: RunPath,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
    token: Annotated[bool, typer.Option("--token/--no-token", help="Ask for a token that only you know.")] = True,
    projection: Map = "tsne",
) -> None:
    """Serve the report as a live page on this machine: search, filter, select, export."""
    from afgrl.explore import serve_explorer

    # Without a line break inside the address, which would break the link.
    in_one_line = functools.partial(message, soft_wrap=True)
    run = opened(run_path)
    serve_explorer(run, port=port, open_browser=browser, use_token=token, projection=projection, message=in_one_line)


@command
def export(
    run_path: RunPath,
    out: Annotated[Path | None, typer.Option("--out", help="File; by default model.onnx in the run folder.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Export the trained encoder to ONNX, for any number of nodes and edges."""
    from afgrl.onnx import export_encoder

    run = opened(run_path)
    file = out or run.onnx_file
    check_new_file(file, force or not out)
    check_folder(file)
    metadata = export_encoder(run, file)
    answer = {"file": str(file), **metadata}
    print(json.dumps(answer) if as_json else f"Saved the encoder of {metadata['method']} to {file}.")
