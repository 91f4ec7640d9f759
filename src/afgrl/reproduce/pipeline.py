"""Every table and figure of the paper beside our results, from a grid of runs that are cached and shared."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import matplotlib
import torch

from afgrl.amounts import counted
from afgrl.data import catalog
from afgrl.errors import UserError, unknown
from afgrl.experiment.cache import RunCache, new_node_grid, run_grid
from afgrl.methods import available_methods
from afgrl.reproduce import (
    best_epoch,
    claims,
    datasets,
    figure_ablation,
    figure_dimension,
    figure_ratio,
    figure_sensitivity,
    figure_tsne,
    layout,
    overview,
    page,
    paper,
    since,
    table1,
    table2,
    table3,
    table4,
)
from afgrl.reproduce.result import Records, Result
from afgrl.reproduce.scope import Scope
from afgrl.runs.files import replace_file
from afgrl.runs.spec import RunSpec, absolute_source
from afgrl.train.device import choose_device


class Module(Protocol):
    """A table or figure: the runs it needs, and what follows from their records."""

    def specs(self, scope: Scope) -> list[RunSpec]: ...
    def result(self, scope: Scope, records: Records) -> Result: ...


QUICK_NOTE = "From a quick call: too small and too short to compare."
RESULTS: dict[str, Module] = {
    "overview": overview,
    "claims": claims,
    "best-epoch": best_epoch,
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "since": since,
    "datasets": datasets,
    "figure-ratio": figure_ratio,
    "figure-sensitivity": figure_sensitivity,
    "figure-ablation": figure_ablation,
    "figure-dimension": figure_dimension,
    "figure-tsne": figure_tsne,
}


def reproduce_results(
    what: str,
    out: str | Path = "reproduction",
    device: str | torch.device = "auto",
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int = 1,
    grid_seeds: int | None = None,
    quick: bool = False,
    cached_only: bool = False,
    workers: int = 1,
    data_dir: str | None = None,
    message: Callable[[str], None] = lambda sentence: None,
) -> dict[str, Result]:
    """Compute a table or figure of the paper beside the published values, or ``all`` of them, as `afgrl reproduce`
    does, and write them to the folder ``out``. Each result has a title, tables, pictures and notes.

    Without ``datasets``, those of the paper are used, and for ``since`` also cora, citeseer and pubmed; ``since`` takes
    files and folders with labels, too. Runs are cached in the folder ``runs`` of ``out`` and shared. With
    ``cached_only`` nothing is trained, and what needs a missing run is left out, with a note. ``quick`` is a smoke
    test: small models and few epochs.
    """
    out, device = Path(out), choose_device(device) if isinstance(device, str) else device
    names = list(RESULTS) if what == "all" else [what]
    _check_names("result", names, [*RESULTS, "all"])
    _check_names("method", methods, list(available_methods()))
    datasets = [absolute_source(name) for name in datasets or (paper.DATASETS if quick else since.DATASETS)]
    files = [name for name in datasets if Path(name).is_absolute()]
    _check_names("dataset", datasets, [*(row["name"] for row in catalog(data_dir)), *files])
    if min(seeds, grid_seeds or seeds, workers) < 1 or grid_seeds == 0:
        raise UserError("There must be at least one seed and one worker.")
    run_cache = RunCache(out / "runs")
    scope = Scope(
        tuple(datasets), tuple(methods or available_methods()), seeds, grid_seeds, quick, data_dir=data_dir,
        embedding=run_cache.embedding,
    )  # fmt: skip
    for source in scope.own_sources:
        if scope.dataset(source).y is None:
            raise UserError(f"The source {source!r} has no labels, so vectors of it cannot be scored.")
    wanted = {name: RESULTS[name].specs(scope) for name in names}
    with_embedding = set(figure_tsne.specs(scope))
    records = run_grid(
        [spec for specs in wanted.values() for spec in specs], run_cache, device, workers=workers,
        cached_only=cached_only, keep_embedding=with_embedding.__contains__, message=message,
    )  # fmt: skip
    if "since" in names:
        later = [spec for spec in since.new_node_specs(scope) if spec in records]
        grid = new_node_grid(later, run_cache, device, workers=workers, cached_only=cached_only, message=message)
        records |= {spec: records[spec] | {since.NEW_NODES: accuracy} for spec, accuracy in grid.items()}
    results = {}
    for name in names:
        message(f"{name}: writing")
        own = {spec: records[spec] for spec in wanted[name] if spec in records}
        results[name] = with_notes(RESULTS[name].result(scope, records), len(set(wanted[name])), own, quick=quick)
        write(out, name, results[name], own)
    page.write(out, list(RESULTS))
    return results


def _check_names(kind: str, given: Sequence[str], possible: list[str]) -> None:
    for name in given:
        if name not in possible:
            raise unknown(kind, name, possible)


def with_notes(result: Result, n_wanted: int, records: Records, *, quick: bool) -> Result:
    """Add which runs it is based on, and how many are missing."""
    notes = [*([QUICK_NOTE] if quick else []), *result.notes]
    if records:
        seconds: dict[str, float] = {}
        for record in records.values():
            device = record["environment"]["device"]
            seconds[device] = seconds.get(device, 0.0) + record["seconds"]
        spent = ", ".join(f"{total:,.0f} s on {device}" for device, total in seconds.items())
        notes.append(f"{counted(len(records), 'run')}; total training time without evaluation: {spent}.")
    if n_wanted > len(records):
        notes.append(f"{n_wanted - len(records)} of {n_wanted} runs are missing; what needs them is left out.")
    return replace(result, notes=notes)


def write(out: Path, name: str, result: Result, records: Records) -> None:
    """Write one result as Markdown, CSV, LaTeX and pictures, and its section of the HTML page."""
    out.mkdir(parents=True, exist_ok=True)
    _write_text(out / f"{name}.md", result.markdown())
    for i, table in enumerate(result.tables, 1):
        stem = f"{name}-{i}" if len(result.tables) > 1 else name
        _write_text(out / f"{stem}.csv", layout.comma_separated(table))
        _write_text(out / f"{stem}.tex", layout.latex(table))
    drawings = {}
    # Text stays text, and the same input gives the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "afgrl", "font.family": "DejaVu Sans"}):
        for stem, draw in result.pictures.items():
            figure = draw()
            svg = io.StringIO()
            figure.savefig(svg, format="svg", metadata={"Date": None})
            drawings[stem] = svg.getvalue()
            _write_text(out / f"{stem}.svg", drawings[stem])
            replace_file(out / f"{stem}.png", partial(figure.savefig, format="png"))
    _write_text(out / "parts" / f"{name}.html", page.section(name, result, drawings, records))


def _write_text(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, lambda path: path.write_text(text, encoding="utf-8"))


__all__ = ["RESULTS", "reproduce_results"]
