"""Training with 1, 2 and 4 processes on one machine (Gloo): bytes sent against the formulas of docs/scale.md, losses,
scores, and a projection to machines with GPUs.

python -m benchmarks.distributed [--source cora] [--steps 169] [--processes 1 2 4]   # → results/distributed.json, .md
python -m benchmarks.distributed --search-only   # measures only the search in clusters again
python -m benchmarks.distributed --seeds-only    # trains only with eight seeds again, without and with processes

Seconds are ratios to one process: processes that share two cores say nothing about a cluster.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from afgrl.data import Dataset, Splits
from afgrl.evaluate.classification import logistic_probe
from afgrl.evaluate.clustering import cluster_scores
from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.collectives import Shards, sent_bytes
from afgrl.ops.knn.clusters import WIDTH, nearest_in_clusters
from afgrl.ops.knn.partition import FINE_PROBES, fine_partition
from afgrl.ops.knn.visitors import PROBES, Clustering
from afgrl.reproduce.layout import Column, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.loop import training_loop
from afgrl.train.state import TrainState, initial_state
from benchmarks import RESULTS
from benchmarks.projection import (
    Cluster,
    Job,
    Rates,
    Size,
    exchange_bytes,
    projected_seconds,
    refresh_bytes,
    step_bytes,
)

JSON = RESULTS / "distributed.json"
CPU = torch.device("cpu")
N_SPLITS = 3
SEEDS = tuple(range(8))  # without processes and with the numbers below; the first is also measured in detail
SEED_PROCESSES = (0, 2, 4)  # 0: without
SEARCHED = 30_000  # vectors of the search in clusters; the graph of the training run is too small for it
CLUSTERS = {"8 GPUs, one machine": Cluster(1), "64 GPUs, eight machines": Cluster(8)}


def measure(source: str, seed: int, steps: int | None, rank: int, n_processes: int) -> dict[str, Any]:
    """One training run, as one of several processes, or without any for ``n_processes=0``."""
    given = {"seed": seed} | ({} if steps is None else {"steps": steps})
    spec = RunSpec(source, settings=given)
    dataset = spec.load()
    _, settings = spec.resolved(dataset)
    shards = Shards(dataset.graph.n, rank, n_processes, distributed=True) if n_processes else None
    state, inputs = initial_state("node_embedder", settings, dataset.graph, CPU, shards)
    losses, sent = [], []

    def record(state: TrainState, loss: Tensor) -> None:
        losses.append(float(loss))
        sent.append(dict(sent_bytes))

    sent_bytes.clear()
    started = time.perf_counter()
    training_loop(state, inputs, [record])
    seconds = time.perf_counter() - started
    vectors = state.method.embed(inputs)
    vectors = vectors if shards is None else shards.gather(vectors)
    result: dict[str, Any] = {"losses": losses, "seconds": seconds, "pairs": state.method.diagnostics()["pairs"]}
    if rank == 0:
        result |= _scores(vectors, dataset) | {"size": _size(state, dataset.graph.n)}
    refresh = settings.model_dump()["refresh_every"]
    return result | {"step": _difference(sent, 1), "refresh": _difference(sent, refresh)}


def _size(state: TrainState, n: int) -> Size:
    settings = state.method.settings.model_dump()
    parameters = sum(one.numel() for one in state.method.parameters() if one.requires_grad)
    positives, d = state.method.diagnostics()["pairs"] / n, settings["encoder_width"]
    in_clusters = state.method.settings.searches_clusters(n, CPU)  # type: ignore[attr-defined]
    probes = (FINE_PROBES if n > HUGE else PROBES) if in_clusters else 0
    repeated = (settings[name] for name in ("n_clusters", "n_restarts", "kmeans_iters"))
    width = min(d, WIDTH) if in_clusters else d
    return Size(n, d, parameters, width, *repeated, positives, probes, settings["n_neighbors"])


def measure_search(rank: int, n_processes: int) -> dict[str, Any]:
    """Bytes of one search in fine clusters of random vectors around 100 centers, and the seconds."""
    size = Size(SEARCHED, WIDTH, 0, WIDTH, probes=FINE_PROBES)
    rng = torch.Generator().manual_seed(0)
    centers = torch.randn(100, WIDTH, generator=rng)
    coarse = torch.randint(100, (SEARCHED,), generator=rng)
    x = centers[coarse] + torch.randn(SEARCHED, WIDTH, generator=rng)
    shards = Shards(SEARCHED, rank, n_processes, distributed=True)
    own = x[shards.begin : shards.end]
    labels, fine, probes = fine_partition(own, Clustering(coarse, centers), shards)
    sent_bytes.clear()
    started = time.perf_counter()
    nearest_in_clusters(own, own, size.n_neighbors, labels, fine, diagonal="first", probes=probes, shards=shards)
    return {
        "nodes": SEARCHED, "swap": sent_bytes["swap"], "ring": sent_bytes["ring"],
        "predicted": exchange_bytes(size, n_processes), "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _difference(sent: list[dict[str, int]], step: int) -> dict[str, int]:
    """Bytes of one step, by operation."""
    return dict(Counter(sent[step]) - Counter(sent[step - 1]))


def _scores(vectors: Tensor, dataset: Dataset) -> dict[str, float]:
    assert dataset.splits is not None
    splits = Splits(dataset.splits.name, dataset.splits.roles[:N_SPLITS])
    accuracy = statistics.mean(logistic_probe(vectors, dataset.y, splits))
    nmi = statistics.mean(cluster_scores(vectors, dataset.y, torch.Generator().manual_seed(0), n_fits=5)["nmi"])
    return {"accuracy": accuracy, "nmi": nmi}


def in_processes(n_processes: int, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The result of process 0 of ``function(*arguments, rank, n_processes)``."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=_work, args=(Path(folder), rank, n_processes, function, arguments))
            for rank in range(n_processes)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        result: dict[str, Any] = torch.load(Path(folder) / "result.pt", weights_only=False)
        return result


def _work(
    folder: Path, rank: int, n_processes: int, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), n_processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_processes)
    result = function(*arguments, rank, n_processes)
    if rank == 0:
        torch.save(result, folder / "result.pt")
    dist.destroy_process_group()


def predicted(size: Size, n_processes: int) -> dict[str, dict[str, float]]:
    """Bytes of a step and of a refresh beside its step, by operation."""
    parts, step = refresh_bytes(size, n_processes), step_bytes(size, n_processes)
    return {
        "step": {"sum": step},
        "refresh": {
            "sum": parts["k-means"] + step,
            "gather": parts["labels"],
            "ring": parts["ring"],
            "swap": parts["exchange"] + parts["reverse pairs"] + parts["targets"],
        },
    }


def tables(record: dict[str, Any]) -> list[Table]:
    runs = record["processes"]
    first = runs["1"]
    bytes_rows = [
        [number, what, operation, float(run[what].get(operation, 0)), float(value), run[what].get(operation, 0) / value]
        for number, run in runs.items() if number != "1"
        for what, parts in run["predicted"].items() for operation, value in parts.items() if value
    ]  # fmt: skip
    for number, search in record["search in clusters"].items():
        what, sent = f"search in clusters, {search['nodes']:,} nodes", search["swap"]
        bytes_rows.append([number, what, "swap", float(sent), search["predicted"], sent / search["predicted"]])
    score_rows: list[list[Any]] = []
    for number, run in runs.items():
        pairs = zip(run["losses"], first["losses"], strict=True)
        differences = [abs(one - other) for one, other in pairs]
        until = record["refresh_every"]
        row = [number, f"{run['accuracy']:.4g}", f"{run['nmi']:.4g}", f"{max(differences[:until]):.1e}"]
        score_rows.append([*row, run["seconds"] / first["seconds"]])
    columns = [Column("processes"), Column("of a"), Column("operation"), Column("bytes sent", 0)]
    columns += [Column("predicted", 0), Column("ratio", 3)]
    titles = ["processes", "accuracy", "NMI", "loss difference before the second refresh"]
    rates = Rates.measured()
    projection = [
        [f"{n:,}", name, rates.memory * n / cluster.gpus / 2**30, part, seconds]
        for n in (100_000_000, 1_000_000_000) for name, cluster in CLUSTERS.items()
        for part, seconds in sorted(projected_seconds(Job(n), cluster, rates).items(), key=lambda one: -one[1])
    ]  # fmt: skip
    return [
        Table("Bytes that process 0 sends", columns, bytes_rows),
        Table("Results of one seed", [*map(Column, titles), Column("seconds, ratio", 2)], score_rows),
        seed_table(record["seeds"]),
        Table(
            "Projection, not measured: the largest part first",
            [Column("nodes"), Column("machines"), Column("GiB per GPU", 0), Column("part"), Column("seconds", 1)],
            projection,
        ),
    ]


def seed_table(seeds: dict[str, Any]) -> Table:
    """Scores of as many seeds with each number of processes, and the differences to training without, seed by seed."""
    rows: list[list[Any]] = []
    for number, runs in seeds["runs"].items():
        row: list[Any] = ["none" if number == "0" else number]
        for name in ("accuracy", "nmi"):
            values = [run[name] for run in runs]
            row += [f"{min(values):.4g} to {max(values):.4g}", f"{statistics.mean(values):.4g}"]
            pairs = zip(values, (run[name] for run in seeds["runs"]["0"]), strict=True)
            differences = [one - other for one, other in pairs]
            error = statistics.stdev(differences) / len(differences) ** 0.5
            row.append(None if number == "0" else f"{statistics.mean(differences):+.2g} ± {error:.1g}")
        rows.append(row)
    titles = ["accuracy", "mean", "difference ± standard error", "NMI", "mean", "difference ± standard error"]
    return Table(f"Results of {len(SEEDS)} seeds", [Column("processes"), *map(Column, titles)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default="cora")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tables-only", action="store_true", help="write the tables of the stored measurement again")
    parser.add_argument("--search-only", action="store_true", help="measure only the search in clusters again")
    parser.add_argument("--seeds-only", action="store_true", help="train only with eight seeds again")
    given = parser.parse_args()
    if given.seeds_only:
        record = json.loads(JSON.read_text(encoding="utf-8"))
        write(record | {"seeds": of_seeds(record["source"], len(record["processes"]["1"]["losses"]))})
    elif given.search_only:
        record = json.loads(JSON.read_text(encoding="utf-8"))
        write(record | {"search in clusters": searches(given.processes)})
    elif not given.tables_only:
        write(measured(given.source, given.steps, given.processes))
    record = json.loads(JSON.read_text(encoding="utf-8"))
    n_steps = len(record["processes"]["1"]["losses"])
    text = f"Measured on `{record['source']}`, {n_steps} steps, by Gloo on one machine.\n"
    text += "".join(f"\n{markdown(table).strip()}\n" for table in tables(record))
    (RESULTS / "distributed.md").write_text(text, encoding="utf-8")


def write(record: dict[str, Any]) -> None:
    JSON.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def searches(processes: list[int]) -> dict[str, Any]:
    environment = current_environment(CPU)
    return {
        str(number): in_processes(number, measure_search) | {"environment": environment}
        for number in processes
        if number > 1
    }


def of_seeds(source: str, steps: int | None) -> dict[str, Any]:
    torch.set_num_threads(1)
    runs: dict[str, list[dict[str, Any]]] = {str(number): [] for number in SEED_PROCESSES}
    for seed in SEEDS:
        for number in SEED_PROCESSES:
            given = (measure, source, seed, steps)
            run = in_processes(number, *given) if number else measure(*given[1:], 0, 0)
            kept = {name: run[name] for name in ("accuracy", "nmi", "pairs", "seconds")}
            runs[str(number)].append(kept | {"last loss": run["losses"][-1]})
            print(seed, number, runs[str(number)][-1], flush=True)
    return {"environment": current_environment(CPU), "runs": runs}


def measured(source: str, steps: int | None, processes: list[int]) -> dict[str, Any]:
    torch.set_num_threads(1)
    runs = {}
    for number in processes:
        run = in_processes(number, measure, source, 0, steps)
        runs[str(number)] = run | {"predicted": predicted(run.pop("size"), number)}
    spec = RunSpec(source)
    settings = spec.resolved(spec.load())[1].model_dump()
    return {
        "source": source, "environment": current_environment(CPU), "refresh_every": settings["refresh_every"],
        "processes": runs, "seeds": of_seeds(source, steps), "search in clusters": searches(processes),
    }  # fmt: skip


if __name__ == "__main__":
    main()
