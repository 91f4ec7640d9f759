"""Anonymous memory of each of 1, 2 and 4 processes that train on one machine, by how they read the graph.

python -m benchmarks.process_memory [--nodes 50000] [--edges 5000000] [--features 512] [--processes 1 2 4]
    # → results/process-memory.json, .md

Ways: process 0 reads the source, writes the run's own copy, and all processes map that (`afgrl fit --nproc`); or, for
comparison, each process reads the source. Training is narrow and short, so that the graph is most of the memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afgrl.bench.planted import Planted, write_planted
from afgrl.data.formats.array_folder import EDGES, FEATURES
from afgrl.data.formats.arrays import read_npy
from afgrl.experiment import training
from afgrl.reproduce.layout import Column, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.distributed import Processes
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.stage_costs import OTHER, StageCosts, host_memory

JSON = RESULTS / "process-memory.json"
CPU = torch.device("cpu")
GIB = 2**30
MAPPED, EACH = "process 0, all map its copy", "each process"
SETTINGS = {
    "steps": 3, "refresh_every": 2, "n_components": 16, "encoder_width": 16, "skip": "none", "input": "own",
    "n_restarts": 1, "kmeans_iters": 2, "n_neighbors": 4,
}  # fmt: skip


def measure(way: str, source: str, run: Path, processes: Processes) -> dict[str, int]:
    """The peaks of anonymous memory of this process: before anything, while it reads, and while it trains."""
    spec, costs, before = RunSpec(source, settings=SETTINGS), StageCosts(CPU), host_memory()[1]
    with costs.watched(), costs.around((training, "begin_run", "read"), (RunSpec, "load", "read")):
        if way == MAPPED:
            training.fit(spec, run, processes)
        else:
            dataset = spec.load()
            _, settings = spec.resolved(dataset)
            shards = processes.shards(dataset.graph.n)
            state, inputs = initial_state(spec.method, settings, dataset.graph, CPU, shards)
            training_loop(state, inputs)
            state.method.embed(inputs)
    peaks = {name: cost.anonymous_bytes for name, cost in costs.costs.items()}
    return {"program": before, "reading": peaks.get("read", 0), "training": peaks[OTHER]}


def in_processes(way: str, source: Path, n_processes: int) -> list[dict[str, int]]:
    """Of each process, in the order of ranks. They are spawned: a forked one would have the memory of this one."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=_work, args=(way, str(source), Path(folder), rank, n_processes))
            for rank in range(n_processes)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(n_processes)]


def _work(way: str, source: str, folder: Path, rank: int, n_processes: int) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), n_processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_processes)
    found = measure(way, source, folder / "run", Processes(rank, n_processes, CPU))
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def sources(graph: Planted, folder: Path) -> dict[str, Path]:
    """The same graph as a folder of arrays, whose features every way maps, and as a file that is read into memory."""
    write_planted(graph, folder / "arrays")
    x, edges = (torch.from_numpy(read_npy(folder / "arrays" / name)) for name in (FEATURES, EDGES))
    torch.save({"x": x, "edge_index": edges.T.to(torch.int64)}, folder / "graph.pt")
    return {"folder of arrays": folder / "arrays", "file .pt": folder / "graph.pt"}


def table(record: dict[str, Any]) -> Table:
    columns = [Column(name) for name in ("source", "read by", "processes")]
    columns += [Column(f"{name}, GiB", 2) for name in ("process 0 reads", "process 0 trains", "most of the others")]
    rows = []
    for one in record["measurements"]:
        first, *others = one["memory"]
        most = max((max(other["reading"], other["training"]) for other in others), default=None)
        peaks = [first["reading"], first["training"], most]
        shown = [None if peak is None else (peak - first["program"]) / GIB for peak in peaks]
        rows.append([one["source"], one["way"], one["processes"], *shown])
    return Table("Anonymous memory of one process, without that of the program", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        found = sources(Planted(chosen.nodes, chosen.edges, chosen.features), folder)
        measurements = [
            {"source": name, "way": way, "processes": number, "memory": in_processes(way, path, number)}
            for name, path in found.items() for way in (EACH, MAPPED) for number in chosen.processes
        ]  # fmt: skip
    finally:
        shutil.rmtree(folder)
    record = {
        "command": "python -m benchmarks.process_memory", "environment": current_environment(CPU),
        "graph": {name: vars(chosen)[name] for name in ("nodes", "edges", "features")}, "settings": SETTINGS,
        "measurements": measurements,
    }  # fmt: skip
    JSON.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    title = "<!-- generated by `python -m benchmarks.process_memory`; do not edit -->\n"
    JSON.with_suffix(".md").write_text(title + markdown(table(record)).strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
