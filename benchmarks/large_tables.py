"""Tables larger than memory: which engine numbers ids, joins both ends of the edges and adds up repeated edges.

python -m benchmarks.large_tables                                    # → results/large-tables.json, .md
python -m benchmarks.large_tables --nodes 10000000 --edges 100000000 --columns 128 --memory 4 --formats parquet
PYTHONPATH=FOLDER python -m benchmarks.large_tables --engines polars  # Polars is no dependency: pip install --target

Each engine gets the same random tables (text ids, numbers, weights) and must find the same edges: self-loops dropped,
repeated edges once in either direction with the sum of their weights, sorted. Memory is the peak of the child process:
``anonymous`` without pages of mapped files, which the system takes back when it needs them. Times are ratios to the
first engine of a format.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch

from afgrl.reproduce.layout import Column, Table
from afgrl.reproduce.layout import markdown as markdown_table
from afgrl.runs.environment import current_environment
from benchmarks import RESULTS

ENGINES = ("memory", "duckdb", "polars", "afgrl")
BLOCK = 1_000_000  # rows that are written at once
POLL = 0.1  # seconds
PROGRAM = "import sys; from benchmarks.large_tables_engines import main; main(*sys.argv[1:])"


def write_tables(folder: Path, form: str, n: int, n_edges: int, columns: int) -> None:
    """``nodes`` with an id, numbers and a class, and ``edges`` with two ids and a weight: one edge in a hundred is a
    self-loop, and one in ten repeats another."""
    generator = np.random.default_rng(0)
    _write(folder / f"nodes.{form}", (_nodes(generator, i, min(BLOCK, n - i), columns) for i in range(0, n, BLOCK)))
    starts = range(0, n_edges, BLOCK)
    _write(folder / f"edges.{form}", (_edges(generator, n, min(BLOCK, n_edges - i)) for i in starts))


def _nodes(generator: np.random.Generator, first: int, rows: int, columns: int) -> pa.Table:
    numbers = {f"x{i}": generator.standard_normal(rows, dtype=np.float32).round(3) for i in range(columns)}
    return pa.table({"id": _ids(np.arange(first, first + rows)), **numbers})


def _edges(generator: np.random.Generator, n: int, rows: int) -> pa.Table:
    source, target = (generator.random((2, rows)) ** 2 * n).astype(np.int64)
    target[::100] = source[::100]
    source[5::10], target[5::10] = target[4::10], source[4::10]
    weight = generator.integers(1, 5, rows)
    return pa.table({"source": _ids(source), "target": _ids(target), "weight": weight})


def _ids(number: np.ndarray) -> pa.Array:
    """Text that does not sort like the rows."""
    scattered = number * 2_654_435_761 % 4_294_967_291
    return pa.array(np.char.add("u", scattered.astype(str)))


def _write(path: Path, tables: Any) -> None:
    first = next(tables)
    kind = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    with kind(str(path), first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def measure(engine: str, folder: Path, form: str, memory: float) -> dict[str, Any]:
    """Peak memory, temporary disk and seconds of an engine in a separate process."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        started = time.perf_counter()
        words = [engine, str(folder), form, temporary, str(memory)]
        child = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, text=True)
        peak = {"anonymous": 0, "resident": 0, "temporary_disk": 0}
        while child.poll() is None:
            peak = {name: max(size, peak[name]) for name, size in _sizes(child.pid, Path(temporary)).items()}
            time.sleep(POLL)
        seconds = time.perf_counter() - started
        printed = child.communicate()[0]
    found = json.loads(printed.strip().splitlines()[-1]) if child.returncode == 0 else {"failed": child.returncode}
    return {"engine": engine, "format": form, **found, **peak, "seconds": seconds}


def _sizes(process: int, temporary: Path) -> dict[str, int]:
    try:
        status = Path(f"/proc/{process}/status").read_text()
        maps = Path(f"/proc/{process}/maps").read_text()
    except OSError:  # it has ended
        return {"anonymous": 0, "resident": 0, "temporary_disk": 0}
    kilobytes = {name: int(size) for name, size in re.findall(r"^(RssAnon|VmHWM):\s+(\d+) kB", status, re.MULTILINE)}
    disk = _nameless_bytes(maps, temporary)
    for file in temporary.rglob("*"):
        try:
            disk += 512 * file.stat().st_blocks
        except OSError:  # it was removed meanwhile
            continue
    return {
        "anonymous": kilobytes.get("RssAnon", 0) << 10, "resident": kilobytes.get("VmHWM", 0) << 10,
        "temporary_disk": disk,
    }  # fmt: skip


def _nameless_bytes(maps: str, temporary: Path) -> int:
    """The size of mapped files without a name: their disk space is free when the process ends."""
    pattern = rf"^(\w+)-(\w+) .*{re.escape(str(temporary))}.* \(deleted\)$"
    return sum(int(end, 16) - int(start, 16) for start, end in re.findall(pattern, maps, re.MULTILINE))


def markdown(answer: dict[str, Any]) -> str:
    rows = []
    for row in answer["rows"]:
        same = [one for one in answer["rows"] if (one["nodes"], one["format"]) == (row["nodes"], row["format"])]
        sizes = [f"{row[name] / 2**30:.2f}" for name in ("anonymous", "resident", "temporary_disk")]
        limit = "none" if row["limit_gib"] is None else f"{row['limit_gib']:g}"
        ratio = f"{row['seconds'] / same[0]['seconds']:.2f}" if "failed" not in row else "failed"
        given = [row["nodes"], row["columns"], row["given_edges"]]
        rows.append([row["engine"], row["format"], *given, limit, *sizes, ratio])
    commits = dict.fromkeys(str(row["commit"]) for row in answer["rows"])
    counts, sizes = ["nodes", "columns", "edges"], ["anonymous GiB", "resident GiB", "disk GiB"]
    titles = ["engine", "format", *counts, "limit GiB", *sizes, "time"]
    columns = [Column(title, 0 if title in counts else None) for title in titles]
    lines = [
        "<!-- generated by `python -m benchmarks.large_tables`; do not edit -->",
        f"Measured on {answer['device']}, commits {', '.join(commits)}; time relative to the first engine of a format "
        "and size. Engines without a limit use what they need.",
        "",
    ]
    return "\n".join(lines) + "\n" + markdown_table(Table("Engines for tables", columns, rows))


def save(file: Path, rows: list[dict[str, Any]]) -> None:
    answer = current_environment(torch.device("cpu")) | {"rows": rows}
    file.write_text(json.dumps(answer, indent=1) + "\n")
    file.with_suffix(".md").write_text(markdown(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--memory", type=float, default=1.0, help="limit of the engine in GiB, where it has one")
    parser.add_argument("--formats", nargs="+", default=["parquet", "csv"])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--out", type=Path, default=RESULTS / "large-tables.json")
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text())["rows"] if chosen.out.exists() else []  # a later call adds rows
    for form in chosen.formats:
        with tempfile.TemporaryDirectory() as folder:
            write_tables(Path(folder), form, chosen.nodes, chosen.edges, chosen.columns)
            for engine in chosen.engines:
                row = measure(engine, Path(folder), form, chosen.memory)
                limit = None if engine == "memory" else chosen.memory
                size = {"nodes": chosen.nodes, "columns": chosen.columns, "given_edges": chosen.edges}
                rows.append(
                    row | size | {"limit_gib": limit, "commit": current_environment(torch.device("cpu"))["commit"]}
                )
                print(json.dumps(rows[-1]), flush=True)
                save(chosen.out, rows)


if __name__ == "__main__":
    main()
