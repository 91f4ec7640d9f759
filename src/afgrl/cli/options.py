"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path | None, typer.Option("--out", help="Run folder; by default a new one under runs/.")]


def _method_names() -> str:
    """The names of the methods, read from their files: importing them would load PyTorch before any help is shown."""
    files = sorted((Path(__file__).parent.parent / "methods").glob("*.py"))
    found = [re.search(r'^    name = "(\w+)"$', file.read_text(encoding="utf-8"), re.MULTILINE) for file in files]
    *names, last = [match[1] for match in found if match]
    return f"{', '.join(names)} or {last}"


METHODS = _method_names()
Method = Annotated[str, typer.Option("--method", help=f"Method: {METHODS}.")]
Recipe = Annotated[str, typer.Option("--recipe", help="Named set of settings: default or paper.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Read settings from a TOML file.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="name=value, for any setting; repeatable.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Same as --set seed=…")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", help="Folder with raw dataset files, searched before downloading (AFGRL_DATA)."),
]
SplitsKind = Annotated[str, typer.Option("--splits", help="auto (canonical if there are any), canonical or random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no messages.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing run or file.")]
Alone = Annotated[bool, typer.Option("--alone", help="Do not join the new graph with the training graph.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="Name of a dataset, folder of tables, or file with a graph.")
]

# How to read a user's own files, where a guess would be wrong: field of ReadOptions → option; no_default_na is the
# opposite of keep_default_na.
READ_OPTIONS: dict[str, Any] = {
    "id": Annotated[str | None, typer.Option("--id", help="Column with the ids of the nodes; none: number the rows.")],
    "name": Annotated[
        str | None, typer.Option("--name", help="Column with names, shown beside the ids and searchable; or none.")
    ],
    "source": Annotated[str | None, typer.Option("--source-column", help="Column with one end of each edge.")],
    "target": Annotated[str | None, typer.Option("--target-column", help="Column with the other end of each edge.")],
    "label": Annotated[str | None, typer.Option("--label", help="Label column, never used in training; or none.")],
    "weight": Annotated[str | None, typer.Option("--weight", help="Column with edge weights; or none.")],
    "nodes": Annotated[str | None, typer.Option("--nodes", help="File of nodes, if SOURCE is a file of edges.")],
    "columns": Annotated[
        list[str] | None, typer.Option("--column", help="name=number, category, text or ignore; repeatable.")
    ],
    "text_model": Annotated[
        str | None, typer.Option("--text-model", help="Folder of a sentence-transformers model for text columns.")
    ],
    "knn_graph": Annotated[
        int | None, typer.Option("--knn-graph", min=1, help="Create edges to this many nearest nodes by features.")
    ],
    "header": Annotated[
        str | None, typer.Option("--header", help="Whether the file of edges begins with column names: yes or no.")
    ],
    "encoding": Annotated[str | None, typer.Option("--encoding", help="Encoding of text files; default utf-8.")],
    "na_values": Annotated[
        list[str] | None, typer.Option("--na-values", help="One more word that means a missing value; repeatable.")
    ],
    "no_default_na": Annotated[
        bool | None, typer.Option("--no-default-na", help="NA, NULL and the like are values, not missing.")
    ],
}


def with_read_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options about a user's files to a command; it receives them as one argument, ``read``."""

    @functools.wraps(function)
    def command(**arguments: Any) -> None:
        given = {name: arguments.pop(f"read_{name}") for name in READ_OPTIONS}
        function(**arguments, read=_read_options(given))

    own = [part for part in inspect.signature(function, eval_str=True).parameters.values() if part.name != "read"]
    added = [
        inspect.Parameter(f"read_{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in READ_OPTIONS.items()
    ]
    parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own] + added
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in parameters}
    del command.__wrapped__  # its annotations are not those of the command
    return command


def _read_options(given: dict[str, Any]) -> Any:
    from afgrl.data.tables.options import ReadOptions
    from afgrl.runs.spec import absolute_source

    keep_default_na = not given.pop("no_default_na")
    paths = {name: given[name] and absolute_source(given[name]) for name in ("nodes", "text_model")}
    several = {name: tuple(given[name] or ()) for name in ("columns", "na_values")}
    return ReadOptions(**given | paths | several, keep_default_na=keep_default_na)
