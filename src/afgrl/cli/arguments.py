"""The options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path | None, typer.Option("--out", help="Run folder; by default a new one under runs/.")]


def _methods() -> str:
    """Their names, read off their files: to import them takes PyTorch, and seconds before any help."""
    files = sorted((Path(__file__).parent.parent / "methods").glob("*.py"))
    named = [re.search(r'^    name = "(\w+)"$', file.read_text(encoding="utf-8"), re.MULTILINE) for file in files]
    *names, last = [found[1] for found in named if found]
    return f"{', '.join(names)} or {last}"


METHODS = _methods()
Method = Annotated[str, typer.Option("--method", help=f"How to learn: {METHODS}.")]
Recipe = Annotated[str, typer.Option("--recipe", help="A set of settings: default, or paper.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings from a TOML file.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="name=value, any setting; repeatable.")]
Seed = Annotated[int | None, typer.Option("--seed", help="The same as --set seed=…")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", help="Folder of raw dataset files, looked at before any download (AFGRL_DATA)."),
]
Splits = Annotated[str, typer.Option("--splits", help="auto (canonical where there are any), canonical or random.")]
Json = Annotated[bool, typer.Option("--json", help="A machine-readable answer on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A dataset's name, a folder of tables, or a file with a graph.")
]

# About a user's own files, where a guess would be wrong.
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of the nodes' names.")]
SourceColumn = Annotated[str | None, typer.Option("--source", help="Column of an edge's first end.")]
TargetColumn = Annotated[str | None, typer.Option("--target", help="Column of an edge's other end.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column that training never sees.")]
WeightColumn = Annotated[str | None, typer.Option("--weight", help="Column of the edges' weights, or none.")]
NodesFile = Annotated[str | None, typer.Option("--nodes", help="File of nodes, if SOURCE is one of edges.")]
ColumnKinds = Annotated[
    list[str] | None, typer.Option("--column", help="name=number, category, text or ignore; repeatable.")
]
KnnGraph = Annotated[int | None, typer.Option("--knn-graph", min=1, help="Make edges to so many nearest nodes.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of text files; by default utf-8.")]
