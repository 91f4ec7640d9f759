"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import afgrl
from afgrl.errors import AfgrlError, Interrupted, UserError

app = typer.Typer(
    help="Node embeddings from a graph with features and no labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
stdout, stderr = Console(), Console(stderr=True)

Out = Annotated[Path | None, typer.Option("--out", help="Run folder; by default a new one under runs/.")]
# Written out, since asking the package would wait for PyTorch.
METHODS = (
    "afgrl, bgrl, dgi, deepwalk, deepwalk_feats, gca, gmi, grace, hops, mvgrl, node2vec, random, raw or supervised_gcn"
)
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


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose errors are one sentence and whose exit status says whose fault it was."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except UserError as error:
            _quit(2, str(error))
        except Interrupted as error:
            _quit(130, str(error))
        except AfgrlError as error:
            _quit(1, str(error))
        except KeyboardInterrupt:
            _quit(130, "Interrupted.")
        except BrokenPipeError:  # the reader of our output has left, as `| head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None

    return app.command()(guarded)


def _quit(status: int, sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise SystemExit(status) from None


@command
def demo(out: Out = None, device: Device = "auto", as_json: Json = False, quiet: Quiet = False) -> None:
    """Learn vectors of handwritten digits and show what training bought; no network, under a minute."""
    from afgrl import experiment

    began = time.perf_counter()
    run = _fit(experiment.Order("demo"), {}, out, device, quiet)
    scores = experiment.evaluate(run.path, _device(device))
    _print_scores(scores, as_json, extra={"run": str(run.path)})
    if not as_json:
        stdout.print(f"\nThe run lies in {run.path} ({time.perf_counter() - began:.0f} s in all). Next:")
        stdout.print(f"  afgrl search {run.path} 0 -k 5     the digits most like digit number 0", highlight=False)


@command
def datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the datasets known by name, and where each would come from."""
    from afgrl import tables
    from afgrl.data import catalogue

    rows = catalogue(data_dir)
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        stdout.print(tables.catalogue(rows))


@command
def fit(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A dataset's name, or an .npz file.")],
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
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn the vectors of a graph's nodes and keep them in a run folder."""
    from afgrl import config as settings
    from afgrl import experiment

    began = time.perf_counter()
    if resume:
        if out is None or config or assignments or seed is not None:
            raise UserError("--resume goes on with the run named by --out, with that run's own settings.")
        if experiment.opened(out)[1].source != source:
            raise UserError(f"The run {str(out)!r} was trained on {experiment.opened(out)[1].source!r}.")
        run = experiment.resume(out, _device(device), data_dir=data_dir, display=_display(quiet))
    else:
        order = experiment.Order(
            source, method, recipe, data_dir, splits, False if undirected else None, evaluate_every
        )
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
        print(f"The run lies in {run.path} ({answer['seconds']} s). Next: afgrl evaluate {run.path}")


@command
def embed(
    run_path: RunPath,
    graph: Annotated[str | None, typer.Option("--graph", help="A new graph; by default the run's own.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A parquet file; by default in the run folder.")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Vectors of a graph by a trained run, without training."""
    from afgrl import experiment
    from afgrl.data import load
    from afgrl.runs import write_embedding

    run, order, _ = experiment.opened(run_path)
    dataset = load(graph, data_dir=data_dir) if graph else order.load(data_dir)
    file = out or run.path / ("embeddings.parquet" if graph is None else f"embeddings-{dataset.name}.parquet")
    if file.exists() and not force and (out or graph):
        raise UserError(f"The file {str(file)!r} exists; --force replaces it, --out names another.")
    _check_folder(file)
    vectors = experiment.embed(run, dataset, _device(device)).cpu().numpy()
    write_embedding(file, dataset.graph.ids, vectors)
    answer = {"file": str(file), "nodes": vectors.shape[0], "width": vectors.shape[1]}
    print(json.dumps(answer) if as_json else f"{answer['nodes']} vectors of width {answer['width']} in {file}")


@command
def evaluate(run_path: RunPath, device: Device = "auto", data_dir: DataDir = None, as_json: Json = False) -> None:
    """Classification, clustering and similarity scores of a run, beside what needs no training."""
    from afgrl import experiment

    _print_scores(experiment.evaluate(run_path, _device(device), data_dir=data_dir), as_json)


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
    from afgrl.runs import replace_file

    names = _names(datasets) or list(DATASETS)
    chosen = list(known_methods()) if methods == "all" else _names(methods)
    if out:
        _check_folder(out)
    answer = measure(
        names, _device(device), recipe_name=recipe, data_dir=data_dir, seconds=seconds,
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
    what: Annotated[str, typer.Argument(metavar="WHAT", help="table1 to table4, datasets, figure-ratio, … or all.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results and the trainings.")] = Path("reproduction"),
    datasets: Annotated[str, typer.Option("--datasets", help="Names, separated by commas.")] = "",
    methods: Annotated[str, typer.Option("--methods", help="Names, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Trainings of each kind.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small and short, on the datasets named: to see it work.")
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
        what, out, _device(device), datasets=_names(datasets) or paper.DATASETS, methods=_names(methods), seeds=seeds,
        quick=quick, workers=workers, data_dir=data_dir, say=(lambda line: None) if quiet else stderr.print,
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


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    if version:
        print(afgrl.__version__)
        raise typer.Exit


def _device(name: str) -> Any:
    from afgrl.train import pick_device

    return pick_device(name)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _check_folder(file: Path) -> None:
    """Before the work, not after it."""
    if not file.parent.is_dir():
        raise UserError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into.")


def _display(quiet: bool) -> Any:
    from afgrl.progress import progress_bar

    return None if quiet else progress_bar


def _fit(
    order: Any, settings: dict[str, Any], out: Path | None, device: str, quiet: bool, *, force: bool = False
) -> Any:
    from afgrl import experiment
    from afgrl.runs import Run

    name = f"{Path(order.source).stem}-{order.method}" + ("" if order.recipe == "default" else f"-{order.recipe}")
    folder = out or Run.unused(Path("runs"), name)
    return experiment.fit(order, settings, folder, _device(device), force=force, display=_display(quiet))


def _print_scores(scores: dict[str, Any], as_json: bool, *, extra: dict[str, Any] | None = None) -> None:
    from afgrl import tables

    if as_json:
        print(json.dumps({**scores, **(extra or {})}, indent=1))
    else:
        stdout.print(tables.scores(scores))


def main() -> None:
    app()
