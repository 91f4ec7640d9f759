"""Training with 1, 2 and 4 processes by NCCL on one GPU: vectors, losses and scores beside those of one process, and
what happens after a process is killed.

AFGRL_DATA=DIR python -m benchmarks.nccl photo cora planted-600k     # → results/nccl.json, results/nccl.md
python -m benchmarks.nccl --table                                    # the table again

NCCL refuses two processes of one machine on one GPU, so NCCL_HOSTID makes them look like separate machines, each with
its torchrun. Messages go through sockets of the loopback interface. The processes take turns on the GPU,
so seconds say nothing about several GPUs and are not kept. `planted-600k` searches in clusters, whose rows the
processes exchange by all-to-all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afgrl.analysis.quality.measures import N_NEIGHBORS, NEIGHBOR_ROWS, sampled_rows
from afgrl.data import Splits
from afgrl.evaluate.classification import logistic_probe
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.similarity import cosine_neighbors
from afgrl.evaluate.unlabeled.geometry import neighbor_overlap
from afgrl.reproduce.layout import Column, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.folder import HISTORY, Run
from benchmarks import RESULTS
from benchmarks.scale import PLANTED, WRITE

JSON = RESULTS / "nccl.json"
NUMBERS = (1, 2, 4)
AGAIN, KILLED = "2, again", "2, one killed"
LARGE = {"search": "clusters", "steps": 40, "refresh_every": 20}  # of planted graphs
SECONDS = 300  # at most, for one training run
N_SPLITS, N_FITS = 5, 5


class Start:
    """Training with several processes, each started by its own torchrun."""

    def __init__(self, number: int, words: list[str], out: Path) -> None:
        self.out, self.log = out, out.with_suffix(".log")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.commands = [self._command(rank, number, port, words) for rank in range(number)]

    def _command(self, rank: int, number: int, port: int, words: list[str]) -> subprocess.Popen[bytes]:
        torchrun = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", str(number), "--nproc-per-node", "1",
            "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
            "--rdzv-id", self.out.name, "--local-addr", "127.0.0.1",
        ]  # fmt: skip
        environment = os.environ | {
            "NCCL_HOSTID": f"machine {rank}", "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "2",
        }  # fmt: skip
        with open(self.log, "ab") as log:
            words = [*torchrun, "-m", "afgrl", "fit", *words, "--out", str(self.out), "--quiet"]
            return subprocess.Popen(words, stdout=log, stderr=log, env=environment)

    def kill_at(self, step: int) -> None:
        """Kill the process of the last torchrun, not torchrun itself, once a step is logged."""
        deadline = time.monotonic() + SECONDS
        while not any(line["epoch"] >= step for line in Run(self.out).lines(HISTORY)):
            if time.monotonic() > deadline or self.commands[-1].poll() is not None:
                raise TimeoutError(f"no step {step}: {self.log.read_text()[-3000:]}")
            time.sleep(0.02)
        for child in _children(self.commands[-1].pid):
            os.kill(child, signal.SIGKILL)

    def end(self) -> None:
        deadline = time.monotonic() + SECONDS
        codes = [command.wait(max(1, deadline - time.monotonic())) for command in self.commands]
        if any(codes):
            raise RuntimeError(f"exit codes {codes}: {self.log.read_text()[-3000:]}")


def _children(parent: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        if int(fields[1]) == parent:
            found.append(int(file.parent.name))
    return found


def measure(source: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    words = [source, "--device", given.device]
    if source in PLANTED:
        words[0] = str(folder / source)
        subprocess.run([sys.executable, "-c", WRITE, str(PLANTED[source]), words[0]], check=True)
        words += [word for name, value in LARGE.items() for word in ("--set", f"{name}={value}")]
    runs: dict[str, dict[str, Any]] = {}
    for name in [*map(str, given.processes), *([] if source in PLANTED else [AGAIN, KILLED])]:
        out = folder / f"{source}-{name.replace(', ', '-').replace(' ', '-')}"
        start = Start(int(name.split(",")[0]), words, out)
        if name == KILLED:
            start.kill_at(_last_step(folder / f"{source}-2") // 2)
        start.end()
        runs[name] = outcome(Run.open(out), Run.open(folder / f"{source}-1"), scored=source not in PLANTED)
        print(source, name, {key: value for key, value in runs[name].items() if key != "losses"}, flush=True)
    return runs


def _last_step(run: Path) -> int:
    return int(Run(run).lines(HISTORY)[-1]["epoch"])


def outcome(run: Run, first: Run, *, scored: bool) -> dict[str, Any]:
    """Of a run, beside that of one process."""
    lines, vectors = [line for line in run.lines(HISTORY) if "loss" in line], run.embedding()[1]
    found: dict[str, Any] = {
        "vectors": hashlib.sha256(vectors.tobytes()).hexdigest()[:16],
        "same neighbors": neighbor_overlap(_neighbors(vectors), _neighbors(first.embedding()[1])),
        "steps": [line["epoch"] for line in lines],
        "losses": [line["loss"] for line in lines],
    }
    if scored:
        dataset = run.dataset()
        assert dataset.splits is not None
        splits = Splits(dataset.splits.name, dataset.splits.roles[:N_SPLITS])
        nmi = cluster_scores(vectors, dataset.y, torch.Generator().manual_seed(0), n_fits=N_FITS)["nmi"]
        found["accuracy"] = statistics.mean(logistic_probe(vectors, dataset.y, splits))
        found["nmi"] = statistics.mean(nmi)
    return found


def _neighbors(vectors: np.ndarray) -> torch.Tensor:
    """Of a sample, among itself. The vectors may be rotated: directions of a projection have any sign."""
    sample = torch.from_numpy(vectors[sampled_rows(len(vectors), NEIGHBOR_ROWS)])
    return cosine_neighbors(sample, N_NEIGHBORS)


def table(sources: dict[str, Any]) -> Table:
    columns = [
        Column("graph"), Column("processes"), Column("bits of the same number"), Column("largest loss difference"),
        Column("same nearest neighbors", 3), Column("accuracy %", 2), Column("NMI", 4),
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for source, runs in sources.items():
        for name, run in runs.items():
            same = None if name == name.split(",")[0] else "yes" if run["vectors"] == runs["2"]["vectors"] else "no"
            losses = zip(run["losses"], runs["1"]["losses"], strict=True)
            loss = f"{max(abs(one - other) for one, other in losses):.0e}"
            rows.append([source, name, same, loss, run["same neighbors"], run.get("accuracy"), run.get("nmi")])
    return Table("Several processes by NCCL on one GPU, or by Gloo on a CPU, beside one", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=["photo", "cora", "planted-600k"])
    parser.add_argument("--processes", type=int, nargs="+", default=list(NUMBERS))
    parser.add_argument("--device", default="cuda", help="cpu tries the script by Gloo")
    parser.add_argument("--out", type=Path, default=JSON)
    parser.add_argument("--table", action="store_true", help="write the table of the stored measurement again")
    given = parser.parse_args()
    if not given.table:
        record: dict[str, Any] = {"environment": current_environment(torch.device(given.device)), "sources": {}}
        with tempfile.TemporaryDirectory() as folder:
            for source in given.sources:
                record["sources"][source] = measure(source, given, Path(folder))
                given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    record = json.loads(given.out.read_text(encoding="utf-8"))
    environment = record["environment"]
    text = (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}: `python -m benchmarks.nccl {' '.join(record['sources'])}`.\n\n"
        f"{markdown(table(record['sources'])).strip()}\n"
    )
    given.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
