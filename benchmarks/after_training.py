"""How long a user waits for each command after `afgrl fit` on a large graph, and what it takes.

AFGRL_DATA=DIR python -m benchmarks.after_training planted-1m genes     # two cores
python -m benchmarks.after_training planted-1m --only search report     # some rows again; others stay
python -m benchmarks.after_training planted-3m --folder /scratch        # graphs and runs stay there and are used again
python -m benchmarks.after_training --table                             # the table again

Each command runs as a user types it, in its own process, on a run that was trained for 20 steps: what follows training
does not depend on the number of steps. Above a million nodes, the run has vectors without training (the method ppr) of
the same width, since 20 steps would take an hour. Seconds are those of the whole process; on a busy machine, CPU
seconds say more. Memory is sampled every 20 ms: ``anonymous`` is what the system cannot drop, ``resident`` also counts
pages of files. Rows are added to results/after-training.json after each command; a row with the same graph and command
is replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from afgrl.reproduce.layout import Column, Table
from afgrl.reproduce.layout import markdown as markdown_table
from afgrl.runs.environment import current_environment
from afgrl.runs.folder import Run
from benchmarks import RESULTS
from benchmarks.explorer_load import explorer_process, system_load
from benchmarks.scale import FILES, GIB, PLANTED, WRITE

FILE = RESULTS / "after-training.json"
STEPS = ("--set", "steps=20", "--set", "refresh_every=20")
NO_STEPS = ("--method", "ppr", "--set", "n_components=128")
MOST_TRAINED = 1_000_000
INTERVAL = 0.02  # seconds between two samples of memory
N_REQUESTS = 20  # to the explorer
FIRST_ID = "{id}"  # in a command, the id of a node


# The name of a row, what follows `afgrl` with {run} for the folder, and what its answer says in the table.
COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], str]]] = {
    "search": (("search", "{run}", FIRST_ID), lambda answer: "all nodes"),
    "search --index, first": (("search", "{run}", FIRST_ID, "--index"), lambda answer: "builds the index"),
    "search --index": (("search", "{run}", FIRST_ID, "--index"), lambda answer: "reads the index"),
    "cluster": (("cluster", "{run}"), lambda answer: f"{answer['k']} clusters"),
    "report": (("report", "{run}"), lambda answer: f"{answer['bytes'] / 2**20:.0f} MiB of HTML"),
    "evaluate": (
        ("evaluate", "{run}"),
        lambda answer: f"{1 + len(answer['baselines'])} embeddings" + (", a sample" if answer["sampled"] else ""),
    ),
    "quality --quick": (("quality", "{run}", "--quick"), lambda answer: f"{len(answer['vectors'])} embeddings"),
    "quality": (("quality", "{run}"), lambda answer: f"{len(answer['vectors'])} embeddings, 4 further training runs"),
    "embed --format npy": (
        ("embed", "{run}", "--out", "{run}/../vectors.npy", "--force"), lambda answer: f"width {answer['width']}"
    ),
    "embed --format csv": (
        ("embed", "{run}", "--out", "{run}/../vectors.csv", "--force"), lambda answer: f"width {answer['width']}"
    ),
}  # fmt: skip
EXPLORE = "explore"


def trained_run(name: str, folder: Path) -> Path:
    """The folder of a run on this graph, made now if there is none."""
    run = folder / f"{name}-run"
    if (run / "model.json").is_file():
        return run
    source = str(Path(os.environ["AFGRL_DATA"]) / FILES[name]) if name in FILES else str(folder / name)
    if name in PLANTED and not Path(source).is_dir():
        subprocess.run([sys.executable, "-c", WRITE, str(PLANTED[name]), source], check=True)
    words = STEPS if PLANTED.get(name, 0) <= MOST_TRAINED else NO_STEPS
    fit = [sys.executable, "-m", "afgrl", "fit", source, "--out", str(run), *words, "--quiet"]
    subprocess.run(fit, check=True)
    return run


def measure(words: tuple[str, ...], run: Path, node_id: str, describe: Callable[[dict[str, Any]], str]) -> Any:
    given = [word.replace("{run}", str(run)).replace(FIRST_ID, node_id) for word in words]
    began, before = time.perf_counter(), cpu_seconds()
    command = [sys.executable, "-m", "afgrl", *given, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sampled(process.pid) as peak:
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}.")
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": cpu_seconds() - before}
    return {name: round(each, 2) for name, each in seconds.items()} | peak | {"note": describe(json.loads(answer))}


def cpu_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def sampled(pid: int) -> Iterator[dict[str, int]]:
    """The peak memory of another process until it ends or the block does."""
    peak, ended = {"anonymous_bytes": 0, "resident_bytes": 0}, threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            with contextlib.suppress(OSError, KeyError):  # the process has ended
                sizes = dict(re.findall(r"(VmRSS|RssAnon):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
                for name, kind in (("anonymous_bytes", "RssAnon"), ("resident_bytes", "VmRSS")):
                    peak[name] = max(peak[name], 1024 * int(sizes[kind]))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def measure_explorer(run: Run, ids: np.ndarray) -> dict[str, Any]:
    """Seconds until the page can be requested and has its data; the note has the median of later requests."""
    began = time.perf_counter()
    with explorer_process(run) as explorer, sampled(explorer.process.pid) as peak:
        headers = {"Authorization": f"Bearer {explorer.token}"}
        with httpx.Client(base_url=f"http://{explorer.host}", headers=headers, timeout=600) as client:
            page = client.get("/payload.json").raise_for_status()
            seconds, times = time.perf_counter() - began, []
            for node_id in np.random.default_rng(0).choice(ids, N_REQUESTS):
                asked = time.perf_counter()
                client.get("/api/neighbors", params={"id": str(node_id), "k": 10}).raise_for_status()
                times.append(time.perf_counter() - asked)
    note = f"{len(page.content) / 2**20:.1f} MiB of data; neighbors of a node in {np.median(times):.2f} s"
    return {"seconds": round(seconds, 2), **peak, "note": note}


def save(file: Path, rows: list[dict[str, Any]]) -> None:
    order = [*COMMANDS, EXPLORE]
    rows.sort(key=lambda row: (row["nodes"], row["graph"], order.index(row["command"])))
    file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    file.with_suffix(".md").write_text(markdown(rows))


def markdown(rows: list[dict[str, Any]]) -> str:
    columns = [
        Column("graph"), Column("nodes", 0), Column("command"), Column("seconds", 0), Column("CPU seconds", 0),
        Column("anonymous GiB", 1),
        Column("resident GiB", 1), Column("answer"),
    ]  # fmt: skip
    entries = [
        [
            row["graph"], row["nodes"], f"`{row['command']}`", row["seconds"], row.get("cpu_seconds"),
            row["anonymous_bytes"] / GIB,
            row["resident_bytes"] / GIB, row["note"],
        ]
        for row in rows
    ]  # fmt: skip
    commits = ", ".join(dict.fromkeys(row["environment"]["commit"] for row in rows))
    device = rows[0]["environment"]["device"]
    return (
        "<!-- generated by `python -m benchmarks.after_training`; do not edit -->\n"
        f"Measured on {device}, two cores shared with other work (system load "
        f"{min(row['load'] for row in rows)} to {max(row['load'] for row in rows)}), commits {commits}.\n\n"
        + markdown_table(Table("Commands after training", columns, entries))
    )


def measure_graph(name: str, folder: Path, only: list[str]) -> Iterator[dict[str, Any]]:
    path = trained_run(name, folder)
    run = Run.open(path)
    ids = run.embedding_ids()
    base = {"graph": name, "nodes": len(ids), "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))}
    for command, (words, describe) in COMMANDS.items():
        if command not in only or (words[0] == "evaluate" and run.labels()[0] is None):
            continue
        if command == "search --index, first":
            run.index_description_file.unlink(missing_ok=True)
        yield base | {"command": command, **measure(words, path, str(ids[7]), describe), "load": system_load()}
    if EXPLORE in only:
        yield base | {"command": EXPLORE, **measure_explorer(run, ids), "load": system_load()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("graphs", nargs="*", choices=[[], *PLANTED, *FILES])
    every = [*COMMANDS, EXPLORE]
    parser.add_argument("--only", nargs="+", default=every, choices=every, metavar="ROW", help="rows of the table")
    parser.add_argument("--folder", type=Path, help="for graphs and runs, which stay there; by default temporary")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text())["rows"] if chosen.out.exists() else []
    if chosen.table:
        save(chosen.out, rows)
    for name in chosen.graphs:
        with tempfile.TemporaryDirectory() as temporary:
            for row in measure_graph(name, chosen.folder or Path(temporary), chosen.only):
                row["environment"] = current_environment(torch.device("cpu"))
                same = (row["graph"], row["command"])
                rows = [old for old in rows if (old["graph"], old["command"]) != same] + [row]
                save(chosen.out, rows)
                print(json.dumps({key: row[key] for key in row if key != "environment"}), flush=True)


if __name__ == "__main__":
    main()
