"""Every table and figure of the paper beside ours, from a grid of trainings that are kept and shared."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import matplotlib
import torch

from afgrl.data import catalog
from afgrl.errors import UserError, unknown
from afgrl.methods import methods as known_methods
from afgrl.reproduce import (
    choice,
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
    table1,
    table2,
    table3,
    table4,
)
from afgrl.reproduce.cells import Cell
from afgrl.reproduce.result import Records, Result, Scope
from afgrl.reproduce.store import Store, run_all
from afgrl.writing import replace_file


class Module(Protocol):
    """A table or figure: the trainings it needs, and what is made of them."""

    def cells(self, scope: Scope) -> list[Cell]: ...
    def result(self, scope: Scope, records: Records) -> Result: ...


LEAD = (
    "Every table and figure of the paper, made anew by afgrl reproduce, beside the paper's own values. Each section "
    "lists its trainings with all settings and the command that repeats them."
)
QUICK_NOTE = "Of a quick call: too small and too short to compare."
RESULTS: dict[str, Module] = {
    "overview": overview,
    "claims": claims,
    "choice": choice,
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "datasets": datasets,
    "figure-ratio": figure_ratio,
    "figure-sensitivity": figure_sensitivity,
    "figure-ablation": figure_ablation,
    "figure-dimension": figure_dimension,
    "figure-tsne": figure_tsne,
}


def reproduce(
    what: str,
    out: Path,
    device: torch.device,
    *,
    datasets: Sequence[str] = paper.DATASETS,
    methods: Sequence[str] = (),
    seeds: int = 1,
    grid_seeds: int | None = None,
    quick: bool = False,
    kept: bool = False,
    workers: int = 1,
    data_dir: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Result]:
    """Make what is asked for (``all`` for everything) and write it into ``out``; trainings lie there in ``runs``.

    With ``kept`` nothing is trained: what needs a training that is not there is left out, and said to be.
    """
    names = list(RESULTS) if what == "all" else [what]
    possibilities = (
        ("result", names, [*RESULTS, "all"]),
        ("method", methods, list(known_methods())),
        ("dataset", datasets, [row["name"] for row in catalog(data_dir)]),
    )
    for kind, given, possible in possibilities:
        for name in given:
            if name not in possible:
                raise unknown(kind, name, possible)
    if min(seeds, grid_seeds or seeds, workers) < 1 or grid_seeds == 0:
        raise UserError("There must be at least one seed and one worker.")
    store = Store(out / "runs", data_dir, trains=not kept)
    scope = Scope(
        tuple(datasets), tuple(methods or known_methods()), seeds, grid_seeds, quick, data_dir=data_dir,
        vectors=lambda cell: store.vectors(cell, device),
    )  # fmt: skip
    wanted = {name: RESULTS[name].cells(scope) for name in names}
    records = run_all([cell for cells in wanted.values() for cell in cells], store, device, workers=workers, say=say)
    made = {}
    for name in names:
        say(f"{name}: writing")
        own = {cell: records[cell] for cell in wanted[name] if cell in records}
        made[name] = _with_notes(RESULTS[name].result(scope, records), len(set(wanted[name])), own, quick=quick)
        write(out, name, made[name], own)
    page.write(out, list(RESULTS), LEAD)
    return made


def _with_notes(result: Result, n_wanted: int, records: Records, *, quick: bool) -> Result:
    """What was trained for it, and what would have had to be."""
    notes = [*([QUICK_NOTE] if quick else []), *result.notes]
    if records:
        seconds: dict[str, float] = {}
        for record in records.values():
            device = record["environment"]["device"]
            seconds[device] = seconds.get(device, 0.0) + record["seconds"]
        told = ", ".join(f"{spent:,.0f} s on {device}" for device, spent in seconds.items())
        notes.append(f"{len(records)} trainings took {told} by their own clocks, without their evaluation.")
    if n_wanted > len(records):
        notes.append(f"{n_wanted - len(records)} of {n_wanted} trainings are not there; what needs them is left out.")
    return replace(result, notes=notes)


def write(out: Path, name: str, result: Result, records: Records) -> None:
    """One result as Markdown, CSV, LaTeX and pictures, and as the part of the page that shows it."""
    out.mkdir(parents=True, exist_ok=True)
    text = [f"## {result.title}", "", *map(layout.markdown, result.tables)]
    text += [f"- {note}" for note in result.notes]
    _put(out / f"{name}.md", "\n".join(text) + "\n")
    for place, table in enumerate(result.tables):
        stem = f"{name}-{place + 1}" if len(result.tables) > 1 else name
        _put(out / f"{stem}.csv", layout.comma_separated(table))
        _put(out / f"{stem}.tex", layout.latex(table))
    drawings = {}
    # Letters stay letters, and the same input gives the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "afgrl", "font.family": "DejaVu Sans"}):
        for stem, draw in result.pictures.items():
            figure = draw()
            svg = io.StringIO()
            figure.savefig(svg, format="svg", metadata={"Date": None})
            drawings[stem] = svg.getvalue()
            _put(out / f"{stem}.svg", drawings[stem])
            replace_file(out / f"{stem}.png", partial(figure.savefig, format="png"))
    _put(out / "parts" / f"{name}.html", page.part(name, result, drawings, records))


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, lambda path: path.write_text(text, encoding="utf-8"))


__all__ = ["RESULTS", "reproduce"]
