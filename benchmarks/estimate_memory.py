"""Predicted against measured peak memory of `afgrl fit`, one child process per graph.

AFGRL_DATA=/path/to/data python -m benchmarks.estimate_memory               # → results/estimate-memory.json, .md
python -m benchmarks.estimate_memory words-1k vectors-1k --device cuda --out FILE      # some graphs, on a GPU
python -m benchmarks.estimate_memory --predict                  # measured before; only `afgrl estimate` runs again

Two refreshes and the embedding at the end are enough: later steps allocate nothing that these do not. Graphs of a
million nodes get a smaller ``n_components``, since a machine with 24 GiB does not hold their default settings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from afgrl.reproduce.layout import Column, Table
from afgrl.reproduce.layout import markdown as markdown_table
from afgrl.runs.environment import current_environment
from benchmarks import RESULTS

# Runs the command line as `afgrl` does, and prints the peaks of this process as the last line.
WITH_PEAK = """
import json, re, sys
from pathlib import Path
from afgrl.cli.entry_point import main

code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
import torch
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
found = {"cpu": int(peak[1]) * 1024}
if torch.cuda.is_available():
    found["cuda"] = torch.cuda.max_memory_allocated()
print("\\nPEAK " + json.dumps(found))
sys.exit(code)
"""
# Makes a random graph in a separate process, so that its memory is free again.
WRITE = "import sys; from benchmarks.random_graphs import write; write(sys.argv[1], sys.argv[2])"
SHORT = {"steps": 4, "refresh_every": 2}


@dataclass(frozen=True)
class Case:
    """A graph to measure; without ``source`` a random one."""

    name: str
    source: str = ""  # dataset, or a file below AFGRL_DATA
    settings: dict[str, Any] = field(default_factory=dict)
    calibrated: bool = False  # whether its memory was known when the formulas were written


CASES = [
    Case("words-1k", calibrated=True),
    Case("vectors-1k", calibrated=True),
    Case("cora", "cora"),
    Case("blogcatalog", "BlogCatalog/raw/blogcatalog.npz"),
    Case("photo", "photo", calibrated=True),
    Case("computers", "computers"),
    Case("cs", "cs", calibrated=True),
    Case("pubmed", "pubmed", calibrated=True),
    Case("vectors-50k", calibrated=True),
    Case("words-100k", calibrated=True),
    Case("wordnet", "WordNet/raw/wordnet30.npz", calibrated=True),
    Case("debian", "Debian/raw/debian-sid.npz"),
    Case("vectors-200k", settings={"n_components": 256}),
    Case("vectors-1m", settings={"n_components": 64}),
    Case("genes", "Genes/raw/genes.npz", {"n_components": 64}),
]
MOST = 0.9  # of the free memory; a graph that may need more is left out


def measure(case: Case, device: str, folder: Path) -> dict[str, Any] | None:
    """What `afgrl estimate` says, and the peak of `afgrl fit`; None if that may not fit into memory."""
    answer, row = predict(case, device, folder)
    if row["memory_bytes"] > MOST * row["free_bytes"]:
        return None
    words = ["fit", _source(case, folder), *_given(case), "--device", device, "--out", str(folder / "run"), "--quiet"]
    peak = json.loads(_run(words).rsplit("\nPEAK ", 1)[1])[device]
    counts = {key: answer[key] for key in ("nodes", "edges", "features")}
    shown = ("input", "skip", "n_components", "encoder_width")
    settings = {name: answer["settings"][name] for name in shown}
    found = {"graph": case.name, **counts, "device": device, "calibrated": case.calibrated, "settings": settings}
    return compared(found | {"measured_bytes": peak}, row)


def predict(case: Case, device: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer of `afgrl estimate`, and its row for the device."""
    printed = _run(["estimate", _source(case, folder), "--json", *_given(case)])
    answer = json.loads(printed.rsplit("\nPEAK ", 1)[0])
    (row,) = (row for row in answer["devices"] if row["device"] == device)
    return answer, row


def compared(found: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    predicted = row["memory_bytes"]
    return found | {"predicted_bytes": predicted, "error": predicted / found["measured_bytes"] - 1}


def predict_again(found: dict[str, Any]) -> dict[str, Any]:
    """A measured graph with the prediction of the current formulas."""
    (case,) = (case for case in CASES if case.name == found["graph"])
    with tempfile.TemporaryDirectory() as folder:
        _, row = predict(case, found["device"], Path(folder))
    return compared(found | {"calibrated": case.calibrated}, row)


def _given(case: Case) -> list[str]:
    return [word for name, value in (case.settings | SHORT).items() for word in ("--set", f"{name}={value}")]


def _source(case: Case, folder: Path) -> str:
    if not case.source:
        file = folder / f"{case.name}.npz"
        if not file.exists():
            subprocess.run([sys.executable, "-c", WRITE, case.name, str(file)], check=True)
        return str(file)
    return str(Path(os.environ["AFGRL_DATA"]) / case.source) if "/" in case.source else case.source


def _run(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, "-c", WITH_PEAK, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def markdown(answer: dict[str, Any]) -> str:
    titles = (
        "graph", "device", "nodes", "edges", "features", "input", "n_components", "predicted", "measured", "error",
        "calibration",
    )  # fmt: skip
    rows = []
    for row in answer["graphs"]:
        sizes = [f"{row[name] / 2**30:.2f} GiB" for name in ("predicted_bytes", "measured_bytes")]
        settings = [row["settings"]["input"], str(row["settings"]["n_components"])]
        counts = [row["nodes"], row["edges"], row["features"]]
        used = "yes" if row["calibrated"] else "no"
        rows.append([row["graph"], row["device"], *counts, *settings, *sizes, f"{100 * row['error']:+.0f} %", used])
    columns = [Column(title, 0 if title in ("nodes", "edges", "features") else None) for title in titles]
    lines = [
        "<!-- generated by `python -m benchmarks.estimate_memory`; do not edit -->",
        f"Measured on {answer['device']}, commit {answer['commit']}: the peak of the resident memory of `afgrl fit` "
        "(on a GPU, of its allocated memory), beside what `afgrl estimate` predicts.",
        "",
    ]
    return "\n".join(lines) + "\n" + markdown_table(Table("Predicted and measured memory", columns, rows))


def save(file: Path, found: list[dict[str, Any]], environment: dict[str, Any]) -> None:
    answer = environment | {"graphs": found}
    file.write_text(json.dumps(answer, indent=1) + "\n")
    file.with_suffix(".md").write_text(markdown(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="graphs; by default all whose data is available")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--predict", action="store_true", help="keep the measurements in --out and predict again")
    parser.add_argument("--out", type=Path, default=RESULTS / "estimate-memory.json")
    chosen = parser.parse_args()
    if chosen.predict:
        stored = json.loads(chosen.out.read_text())
        save(chosen.out, [predict_again(row) for row in stored.pop("graphs")], stored)
        return
    known = chosen.names or [case.name for case in CASES if not case.source or "AFGRL_DATA" in os.environ]
    found: list[dict[str, Any]] = []
    for case in (case for case in CASES if case.name in known):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(case, chosen.device, Path(folder))
        if row is None:
            print(f"{case.name} needs more memory than is free; left out.", file=sys.stderr)
            continue
        found.append(row)
        print(json.dumps(row), flush=True)
        save(chosen.out, found, current_environment(torch.device(chosen.device)))


if __name__ == "__main__":
    main()
