"""Some rows of tables 2 to 4, beside the stored runs of all other rows.

AFGRL_DATA=DIR python -m benchmarks.reproduction_rows                # trains 16 runs
AFGRL_DATA=DIR python -m benchmarks.reproduction_rows --tables       # only the tables, from the stored runs

results/reproduction/runs.json has the runs behind these tables. AFGRL's default changed after most of them, and two
methods without training were added; the settings of all other rows are what they were.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from afgrl import DEFAULT_METHOD
from afgrl.experiment.cache import RunCache, run_grid
from afgrl.methods import available_methods
from afgrl.reproduce import paper, scores
from afgrl.reproduce.pipeline import RESULTS as MODULES
from afgrl.reproduce.pipeline import with_notes
from afgrl.reproduce.result import Records
from afgrl.reproduce.scope import Scope
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from benchmarks import RESULTS

FOLDER = RESULTS / "reproduction"
FILE = FOLDER / "runs.json"
ROWS = (("svd", "paper"), ("ppr", "paper"), (DEFAULT_METHOD, "default"))  # method and recipe
SEEDS = 2
TABLES = ("overview", "table2", "table3", "table4")
Key = tuple[str, str, int, str]


def scope_of(data_dir: str | None) -> Scope:
    return Scope(paper.DATASETS, tuple(available_methods()), SEEDS, data_dir=data_dir)


def stored() -> dict[Key, dict[str, Any]]:
    runs = json.loads(FILE.read_text())["runs"]
    return {(run["dataset"], run["method"], run["seed"], run["recipe"]): run for run in runs}


def key_of(spec: RunSpec) -> Key:
    return spec.source, spec.method, int(spec.settings["seed"]), spec.recipe


def measure(scope: Scope, cache: Path, device: str) -> None:
    specs = [spec for spec in scores.specs(scope) if (spec.method, spec.recipe) in ROWS]
    records = run_grid(specs, RunCache(cache), choose_device(device), message=print)
    runs = stored()
    for spec, record in records.items():
        record["command"] = spec.command().replace(f" --data-dir {spec.data_dir}", "")
        runs[key_of(spec)] = record | {"evaluation": asdict(spec.evaluation)}
    FILE.write_text(json.dumps({"runs": list(runs.values())}) + "\n")


def write_tables(scope: Scope) -> None:
    runs = stored()
    records: Records = {spec: runs[key_of(spec)] for spec in scores.specs(scope) if key_of(spec) in runs}
    for name in TABLES:
        result = with_notes(MODULES[name].result(scope, records), len(records), records, quick=False)
        (FOLDER / f"{name}.md").write_text(result.markdown())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cache", type=Path, default=Path("reproduction/runs"), help="the run cache; runs are resumed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tables", action="store_true", help="only write the tables again")
    chosen = parser.parse_args()
    scope = scope_of(os.environ.get("AFGRL_DATA"))
    if not chosen.tables:
        measure(scope, chosen.cache, chosen.device)
    write_tables(scope)


if __name__ == "__main__":
    main()
