"""A new user's path, timed: two CSV files → vectors, clusters, a report.

python -m benchmarks.own_tables write photo /tmp/photo        # real graphs, written as tables with string ids
python -m benchmarks.own_tables run photo pubmed wordnet      # → results/own-tables.json, results/own-tables.md
python -m benchmarks.own_tables new photo                     # nodes held back → results/new-nodes-photo.{json,md}
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afgrl.csr import csr_from_scipy, csr_to_scipy
from afgrl.data import Dataset, load
from afgrl.data.raw import user_folder
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, Splits
from afgrl.environment import environment
from afgrl.evaluate import logistic_probe
from afgrl.vectors import read_parquet
from benchmarks.headline import RESULTS

AS_TEXT = ("pubmed", "cs", "physics", "wordnet")  # bags of words, as a column of text; the others as columns of numbers


def dataset(name: str) -> Dataset:
    if name != "wordnet":
        return load(name, splits="random")
    folder = user_folder()
    assert folder is not None, "AFGRL_DATA must name the folder of WordNet"
    return load(folder / "WordNet" / "raw" / "wordnet30.npz")


def write(name: str, folder: Path, *, nodes: np.ndarray | None = None) -> None:
    """``nodes.csv`` and ``edges.csv`` of a graph, or of those of its nodes for which ``nodes`` is true."""
    source = dataset(name)
    kept = np.ones(source.graph.n, dtype=bool) if nodes is None else nodes
    folder.mkdir(parents=True, exist_ok=True)
    x = source.graph.x
    table = csr_to_scipy(x if x.layout == torch.sparse_csr else csr_from_scipy(x.numpy()))
    names = [f"{name}-{i:06d}" for i in range(source.graph.n)]
    with open(folder / "nodes.csv", "w", newline="") as file:
        rows = csv.writer(file)
        columns = ["words"] if name in AS_TEXT else [f"word {i}" for i in range(table.shape[1])]
        rows.writerow(["id", *columns, "label"])
        for i in np.flatnonzero(kept):
            rows.writerow([names[i], *_cells(table, i, text=name in AS_TEXT), f"class {source.y[i]}"])
    source_end, target = source.graph.edge_index.numpy()
    once = (source_end < target) & kept[source_end] & kept[target]
    _write_edges(folder, names, source_end[once], target[once])


def _write_edges(folder: Path, names: list[str], first: np.ndarray, second: np.ndarray) -> None:
    with open(folder / "edges.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        rows.writerows((names[a], names[b]) for a, b in zip(first, second, strict=True))


def _cells(table: Any, i: int, *, text: bool) -> list[Any]:
    begin, end = table.indptr[i : i + 2]
    if text:
        words = zip(table.indices[begin:end], table.data[begin:end], strict=True)
        return [" ".join(f"w{word}" for word, times in words for _ in range(max(1, int(times))))]
    row = np.zeros(table.shape[1])
    row[table.indices[begin:end]] = table.data[begin:end]
    return [f"{value:g}" for value in row]


def path(name: str, folder: Path) -> dict[str, Any]:
    """The three commands, with the time and the memory that each takes."""
    write(name, folder / name)
    run = folder / "run"
    commands = {
        "fit": ["fit", str(folder / name), "--out", str(run), "--quiet"],
        "cluster": ["cluster", str(run)],
        "report": ["report", str(run), "--out", str(folder / "report.html")],
    }
    steps = {step: _timed([sys.executable, "-m", "afgrl", *arguments]) for step, arguments in commands.items()}
    description = json.loads((run / "data.json").read_text())
    counts = {key: description[key] for key in ("nodes", "edges", "features")}
    return {"graph": name, **counts, "steps": steps, "report_bytes": (folder / "report.html").stat().st_size}


def _timed(command: list[str]) -> dict[str, float]:
    code = "import resource,subprocess,sys; r=subprocess.run(sys.argv[1:]).returncode; "
    code += "print('PEAK', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r)"
    began = time.perf_counter()
    answer = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(answer.stdout + answer.stderr)
    peak = int(answer.stdout.rsplit("PEAK", 1)[1]) * 1024
    return {"seconds": time.perf_counter() - began, "peak_bytes": peak}


def measure(names: list[str]) -> None:
    found = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found.append(path(name, Path(folder)))
        print(json.dumps(found[-1]), flush=True)
    answer = environment(torch.device("cpu")) | {"graphs": found}
    (RESULTS / "own-tables.json").write_text(json.dumps(answer, indent=1) + "\n")
    (RESULTS / "own-tables.md").write_text(markdown(answer))


def markdown(answer: dict[str, Any]) -> str:
    lines = [
        "<!-- generated by `python -m benchmarks.own_tables run …`; do not edit -->",
        f"Measured on {answer['device']}, commit {answer['commit']}, default settings, from two CSV files.",
        "",
        "| graph | nodes | edges | features | `fit` | `cluster` | `report` | in all | peak memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in answer["graphs"]:
        seconds = [step["seconds"] for step in row["steps"].values()]
        peak = max(step["peak_bytes"] for step in row["steps"].values()) / 2**30
        counts = " | ".join(f"{row[key]:,}" for key in ("nodes", "edges", "features"))
        times = " | ".join(_minutes(value) for value in (*seconds, sum(seconds)))
        lines.append(f"| {row['graph']} | {counts} | {times} | {peak:.1f} GiB |")
    return "\n".join(lines) + "\n"


HELD_BACK = 0.1
SEEDS = (0, 1, 2)


def new_nodes(name: str, settings: list[str]) -> None:
    """A tenth of the nodes is left out of training and embedded afterwards; how well are they classified, by a probe
    that learns from nodes of the training, and how well if they had been there?"""
    source, rows = dataset(name), []
    for seed in SEEDS:
        held = np.zeros(source.graph.n, dtype=bool)
        held[np.random.default_rng(seed).permutation(len(held))[: int(HELD_BACK * len(held))]] = True
        with tempfile.TemporaryDirectory() as place:
            rows.append({"seed": seed, **_with_and_without(name, source, held, Path(place), settings)})
        print(json.dumps(rows[-1]), flush=True)
    answer = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    answer |= {"graph": name, "held_back": HELD_BACK, "settings": settings, "runs": rows}
    (RESULTS / f"new-nodes-{name}.json").write_text(json.dumps(answer, indent=1) + "\n")
    (RESULTS / f"new-nodes-{name}.md").write_text(new_markdown(answer))


def new_markdown(answer: dict[str, Any]) -> str:
    told = f"`{' '.join(answer['settings'])}`" if answer["settings"] else "default settings"
    lines = [
        "<!-- generated by `python -m benchmarks.own_tables new …`; do not edit -->",
        f"Measured on {answer['device']}, commit {answer['commit']}, {told}: {answer['held_back']:.0%} of the nodes of "
        f"{answer['graph']} were held back. Accuracy on them, by a classifier that learns from other nodes.",
        "",
        "| nodes held back | embedded later, % | trained with, % | difference |",
        "|---|---|---|---|",
    ]
    kinds = ("embedded later", "trained with")
    rows = {f"draw {row['seed']}": [row[kind] for kind in kinds] for row in answer["runs"]}
    rows["mean"] = [float(np.mean([row[kind] for row in answer["runs"]])) for kind in kinds]
    lines += [f"| {draw} | {later:.2f} | {with_:.2f} | {later - with_:+.2f} |" for draw, (later, with_) in rows.items()]
    return "\n".join(lines) + "\n"


def _with_and_without(
    name: str, source: Dataset, held: np.ndarray, folder: Path, settings: list[str]
) -> dict[str, float]:
    write(name, folder / "all")
    write(name, folder / "old", nodes=~held)
    _write_new(name, source, held, folder)
    for part in ("all", "old"):
        _run(["fit", str(folder / part), "--out", str(folder / f"run-{part}"), "--quiet", *settings])
    _run(["embed", str(folder / "run-old"), "--graph", str(folder / "new"), "--out", str(folder / "new.parquet")])
    ids, old = read_parquet(folder / "run-old" / "embeddings.parquet")
    new_ids, new = read_parquet(folder / "new.parquet")
    every_id, every = read_parquet(folder / "run-all" / "embeddings.parquet")
    later = {"id": np.concatenate([ids, new_ids]), "vectors": np.concatenate([old, new])}
    order = np.argsort(later["id"].astype(str))
    names = np.sort(every_id.astype(str))
    assert (later["id"].astype(str)[order] == names).all()
    whole = every[np.argsort(every_id.astype(str))]
    return {
        "embedded later": _accuracy(later["vectors"][order], source.y, held),
        "trained with": _accuracy(whole, source.y, held),
    }


def _accuracy(vectors: np.ndarray, y: Any, held: np.ndarray) -> float:
    """Of the nodes held back, by a probe on a ninth of the others; another ninth chooses its strength."""
    roles = np.full((1, len(held)), UNUSED, dtype=np.uint8)
    others = np.random.default_rng(0).permutation(np.flatnonzero(~held))
    part = len(others) // 9
    roles[0, others[:part]], roles[0, others[part : 2 * part]], roles[0, held] = TRAIN, VALIDATION, TEST
    values = logistic_probe(torch.from_numpy(vectors), torch.as_tensor(y), Splits("held back", roles))
    return float(np.mean(values))


def _write_new(name: str, source: Dataset, held: np.ndarray, folder: Path) -> None:
    """The nodes held back, and their edges to all nodes."""
    write(name, folder / "new", nodes=held)
    first, second = source.graph.edge_index.numpy()
    once = (first < second) & (held[first] | held[second])
    _write_edges(folder / "new", [f"{name}-{i:06d}" for i in range(len(held))], first[once], second[once])


def _run(arguments: list[str]) -> None:
    answer = subprocess.run([sys.executable, "-m", "afgrl", *arguments], capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(answer.stdout + answer.stderr)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "write":
        write(rest[0], Path(rest[1]))
    elif what == "run":
        measure(rest)
    elif what == "new":
        new_nodes(rest[0], rest[1:])
    else:
        raise SystemExit(f"{what!r} is not write, run or new.")
