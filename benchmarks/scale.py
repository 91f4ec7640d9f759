"""What `afgrl fit` with default settings costs stage by stage, from a hundred thousand to ten million nodes.

python -m benchmarks.scale planted-1m planted-3m planted-10m --device cuda     # GPU, one graph per process
AFGRL_DATA=DIR python -m benchmarks.scale debian genes planted-1m --device cpu     # two cores
python -m benchmarks.scale planted-10m --device cuda --folder /scratch         # where graphs and runs are written
python -m benchmarks.scale --table                                             # table and picture again

One call adds its rows to results/scale.json after each graph, and draws results/scale.md and results/scale.png. A row
with the same graph and device is replaced. Planted graphs are made by afgrl.bench.planted (1, 3 and 10 million nodes
with 128 features and ten edges per node), in a separate process.

Seconds are those of `afgrl fit` without the start of Python. Memory is sampled every 10 ms: ``anonymous`` is what the
system cannot drop, ``resident`` also counts pages of mapped files, such as the features, which it can. Recall is the
share of the exact nearest neighbors of 1,000 nodes that the search finds, at the first and the last refresh. NMI
compares the classes with k-means (fitted to 100,000 rows, then assigned to at most a million).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import NullFormatter, ScalarFormatter

from afgrl.reproduce.layout import Column, Table
from afgrl.reproduce.layout import markdown as markdown_table
from afgrl.runs.environment import current_environment
from benchmarks import RESULTS
from benchmarks.stage_costs import OTHER

FILE = RESULTS / "scale.json"
FILES = {"debian": "Debian/raw/debian-sid.npz", "genes": "Genes/raw/genes.npz"}
PLANTED = {
    "planted-100k": 100_000, "planted-300k": 300_000, "planted-600k": 600_000, "planted-1m": 1_000_000,
    "planted-3m": 3_000_000, "planted-10m": 10_000_000,
}  # fmt: skip
WRITE = """
import sys
from pathlib import Path
from afgrl.bench.planted import planted_graph, write_planted
write_planted(planted_graph(int(sys.argv[1])), Path(sys.argv[2]))
"""
# Stages of the picture, from below: what they are called and which stages of ``scale_fit`` they have.
GROUPS = {
    "read and copy": ("read", "settings", "copy into the run", "move to the device", OTHER),
    "normalize, propagate, SVD": ("normalize", "propagation and SVD"),
    "steps": ("steps", "checkpoint"),
    "refreshes": ("refresh: targets", "refresh: k-means", "refresh: neighbors"),
    "vectors": ("vectors", "write"),
}
GIB = 2**30


def measure(name: str, device: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the graph, train on it in a separate process, and remove both."""
    began = time.perf_counter()
    source = FILES.get(name) and str(Path(os.environ["AFGRL_DATA"]) / FILES[name])
    if source is None:
        source = str(folder / name)
        shutil.rmtree(source, ignore_errors=True)
        subprocess.run([sys.executable, "-c", WRITE, str(PLANTED[name]), source], check=True)
    made = time.perf_counter() - began
    shutil.rmtree(folder / f"{name}-run", ignore_errors=True)
    words = [source, str(folder / f"{name}-run"), "--device", device, "--settings", json.dumps(settings)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale_fit", *words], stdout=subprocess.PIPE, text=True, check=True
    )
    whole = time.perf_counter() - began - made
    row = {"graph": name, "on": device, "given": settings, "seconds_to_make": round(made, 2)}
    return row | {"process_seconds": round(whole, 2)} | json.loads(done.stdout.splitlines()[-1])


def save(file: Path, rows: list[dict[str, Any]]) -> None:
    rows.sort(key=lambda row: (row["on"], row["nodes"]))
    file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    file.with_suffix(".md").write_text(markdown(rows))
    draw(file.with_suffix(".png"), rows)


def markdown(rows: list[dict[str, Any]]) -> str:
    titles = ("graph", "device", "nodes", "edges", "seconds", "anonymous GiB", "resident GiB", "GPU GiB", "run GiB")
    columns = [Column(title, 0 if title in ("nodes", "edges") else None) for title in (*titles, "recall", "NMI")]
    totals, stages = [], []
    for row in rows:
        sizes = [f"{row[name] / GIB:.1f}" for name in ("anonymous_bytes", "resident_bytes", "cuda_bytes", "run_bytes")]
        found = [f"{value:.3f}" for value in (row["recall"][:1] + row["recall"][-1:])]
        nmi = f"{row['nmi']:.3f} (features {row['nmi_features']:.3f})" if "nmi" in row else None
        counts = [row["nodes"], row["edges"], f"{row['seconds']:.0f}"]
        given = ", ".join(f"{name} = {value}" for name, value in row["given"].items())
        totals.append(
            [row["graph"] + (f" ({given})" if given else ""), row["on"], *counts, *sizes, " to ".join(found), nmi]
        )
        for stage, cost in row["stages"].items():
            sizes = [f"{cost[f'{kind}_bytes'] / GIB:.2f}" for kind in ("anonymous", "resident", "cuda")]
            stages.append([row["graph"], row["on"], stage, f"{cost['seconds']:.1f}", str(cost["calls"]), *sizes])
    stage_columns = [Column(title) for title in ("graph", "device", "stage", "seconds", "calls", *titles[5:8])]
    measured = "; ".join(
        dict.fromkeys(f"{row['environment']['device']}, {row['environment']['commit']}" for row in rows)
    )
    return (
        "<!-- generated by `python -m benchmarks.scale`; do not edit -->\n"
        f"Measured on (device, commit): {measured}.\n\n"
        + markdown_table(Table("Default settings from source to vectors", columns, totals))
        + "\n"
        + markdown_table(Table("Stages", stage_columns, stages))
    )


def draw(file: Path, rows: list[dict[str, Any]]) -> None:
    """Seconds and memory of the planted graphs against the number of nodes, for each device."""
    rows = [row for row in rows if row["graph"] in PLANTED and not row["given"]]
    devices = list(dict.fromkeys(row["on"] for row in rows))
    if not devices:
        return
    figure, axes = plt.subplots(len(devices), 2, figsize=(10, 4 * len(devices)), squeeze=False, layout="constrained")
    for (left, right), device in zip(axes, devices, strict=True):
        chosen = [row for row in rows if row["on"] == device]
        nodes = [row["nodes"] for row in chosen]
        for group, names in GROUPS.items():
            seconds = [sum(row["stages"].get(name, {"seconds": 0})["seconds"] for name in names) for row in chosen]
            left.plot(nodes, seconds, marker="o", label=group)
        left.plot(nodes, [row["seconds"] for row in chosen], color="black", marker="o", label="all")
        for label, name in (("anonymous", "anonymous_bytes"), ("resident", "resident_bytes"), ("GPU", "cuda_bytes")):
            if any(row[name] for row in chosen):
                right.plot(nodes, [row[name] / GIB for row in chosen], marker="o", label=label)
        for axis, title in ((left, "seconds"), (right, "GiB")):
            axis.set(xscale="log", yscale="log", xlabel="nodes", ylabel=title, title=f"{title} on {device}")
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("graphs", nargs="*", choices=[[], *PLANTED, *FILES])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as a JSON value")
    parser.add_argument("--folder", type=Path, help="for graphs and runs, which stay there; by default temporary")
    parser.add_argument("--table", action="store_true", help="only write the table and the picture again")
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text())["rows"] if chosen.out.exists() else []
    if chosen.table:
        save(chosen.out, rows)
    settings = {name: json.loads(value) for name, value in (given.split("=", 1) for given in chosen.set)}
    for name in chosen.graphs:
        with tempfile.TemporaryDirectory() as temporary:
            row = measure(name, chosen.device, settings, chosen.folder or Path(temporary))
        row["environment"] = current_environment(torch.device(chosen.device))
        rows = [old for old in rows if (old["graph"], old["on"]) != (name, chosen.device)] + [row]
        save(chosen.out, rows)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
