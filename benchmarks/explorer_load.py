"""The explorer under load: 500 requests/s for a minute while 200 slow clients hold connections. Does it answer all of
them, how fast, how much memory does it take, and does it stop?

python -m benchmarks.explorer_load [--seconds 60]      # → results/explorer-load.json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.graph import Graph
from afgrl.runs.environment import current_environment
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from benchmarks import RESULTS
from benchmarks.load_client import Measured, hold_slow_clients, request_mix, send_at_rate

N_NODES, WIDTH = 4000, 128
RATE, SLOW_CLIENTS = 500.0, 200
PERCENTILES = (50, 90, 99, 99.9, 100)
ADDRESS = re.compile(r"http://(127\.0\.0\.1:(\d+))/\?token=(\S+)")


def make_run(folder: Path, n: int = N_NODES) -> Run:
    """A run with random vectors, made without training."""
    draw = np.random.default_rng(0)
    ids = np.array([f"node-{i}" for i in range(n)], dtype=object)
    ring = np.arange(n)
    graph = Graph(draw.normal(size=(n, 4)), np.stack([ring, np.roll(ring, 1)]), ids=ids)
    columns = {"city": pa.array([f"city {i % 50}" for i in range(n)]), "weight": pa.array(draw.normal(size=n))}
    table = pa.table({"id": ids, **columns})
    run = Run.create(folder)
    run.save_spec(RunSpec("random"))
    run.save_dataset(Dataset("random", graph, ingested=Ingested(table, n, None, None, IngestReport())))
    run.save_embedding(ids, draw.normal(size=(n, WIDTH)).astype(np.float32))
    run.save_projection("tsne", draw.normal(size=(n, 2)))
    return run


@dataclass(frozen=True)
class Explorer:
    process: subprocess.Popen[str]
    host: str
    port: int
    token: str


@contextlib.contextmanager
def explorer_process(run: Run) -> Iterator[Explorer]:
    """`afgrl explore` as a user starts it."""
    command = [sys.executable, "-m", "afgrl", "explore", str(run.path), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next((match for line in process.stderr if (match := ADDRESS.search(line))), None)
            if found is None:
                raise RuntimeError(f"The explorer ended with exit code {process.wait()} before it printed its address.")
            yield Explorer(process, found[1], int(found[2]), found[3])
        finally:
            process.kill()


def process_memory(pid: int, name: str) -> float:
    """``VmRSS`` (now) or ``VmHWM`` (peak) of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return round(int(found[1]) / 1024, 1)


def system_load() -> float:
    """Processes that run or want to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def n_sockets(pid: int) -> int:
    return sum(
        os.readlink(link).startswith("socket:") for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
    )


async def sample_sockets(pid: int, counts: list[int]) -> None:
    while True:
        with contextlib.suppress(FileNotFoundError):  # closed between the two questions
            counts.append(n_sockets(pid))
        await asyncio.sleep(0.5)


async def apply_load(explorer: Explorer, rate: float, n_slow: int, seconds: float) -> Measured:
    measured = Measured()
    slow = hold_slow_clients(explorer.port, explorer.host, explorer.token, n_slow, measured)
    beside = [asyncio.create_task(slow)]
    await asyncio.sleep(min(1.0, seconds / 2))  # until the slow clients are connected
    beside.append(asyncio.create_task(sample_sockets(explorer.process.pid, measured.sockets)))
    requests = request_mix(explorer.host, explorer.token, N_NODES)
    try:
        await send_at_rate(explorer.port, requests, rate, seconds, measured)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    return measured


def stop(process: subprocess.Popen[str]) -> dict[str, Any]:
    started = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    code, said = process.wait(timeout=30), process.stderr.read()
    return {"exit_code": code, "seconds": round(time.perf_counter() - started, 2), "message": said.strip()}


def measure(seconds: float, rate: float = RATE, n_slow: int = SLOW_CLIENTS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run")
        with explorer_process(run) as explorer:
            pid = explorer.process.pid
            idle_sockets = n_sockets(pid)
            asyncio.run(apply_load(explorer, rate, 0, min(1.0, seconds)))  # the first requests load code
            before, load_before = process_memory(pid, "VmRSS"), system_load()
            measured = asyncio.run(apply_load(explorer, rate, n_slow, seconds))
            memory = {name: process_memory(pid, kind) for name, kind in (("after", "VmRSS"), ("peak", "VmHWM"))}
            stopped = stop(explorer.process)
    answered = sorted(measured.seconds)
    return {
        "nodes": N_NODES, "width": WIDTH, "seconds": seconds, "requested_per_s": rate, "slow_clients": n_slow,
        "requests": sum(measured.statuses.values()),
        "answered_per_s": round(len(answered) / measured.duration, 1),
        "statuses": dict(measured.statuses),
        "latency_ms": {f"{p:g} %": round(1000 * float(np.percentile(answered, p)), 2) for p in PERCENTILES},
        "connections": {"least": min(measured.sockets) - idle_sockets, "most": max(measured.sockets) - idle_sockets},
        "slow_connections_closed_by_deadline": dict(measured.closed),
        "memory_mib": {"before": before, **memory},
        "system_load": {"before": load_before, "after": system_load(), "cores": os.cpu_count()},
        "stop": stopped,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--slow-clients", type=int, default=SLOW_CLIENTS)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorer-load.json")
    given = parser.parse_args()
    answer = measure(given.seconds, given.rate, given.slow_clients)
    environment = current_environment(torch.device("cpu"))
    environment["versions"] |= {name: metadata.version(name) for name in ("fastapi", "uvicorn", "h11")}
    note = "The clients run on the same machine as the explorer, and other work ran at the same time."
    text = json.dumps({"environment": environment, "note": note, **answer}, indent=1)
    given.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
