"""What the exact shortcuts save: an epoch as it is against the same epoch done plainly, in one run.

    python -m benchmarks.epoch [--dataset photo]         # → a table, and results/epoch-<device>.json

Ratios compare within the run and hold on any machine of the kind; no absolute time of a CPU is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import recipe, resolve
from afgrl.data import load
from afgrl.methods.afgrl import AFGRLConfig
from afgrl.ops import kmeans, pair_loss, pair_matrix, smoothing
from afgrl.runs import environment
from afgrl.train import pick_device, start
from benchmarks.headline import RESULTS


def gathered_loss(z: Tensor, t: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    forth = 2 - 2 * F.cosine_similarity(z[src], t[dst])
    back = 2 - 2 * F.cosine_similarity(z[dst], t[src])
    return (forth + back).mean()


def compare(dataset: str, device: torch.device, repeats: int) -> list[dict[str, Any]]:
    graph = load(dataset).graph.to(device)
    config = resolve(AFGRLConfig, recipe("afgrl", "paper", dataset)).adapted(graph)
    state, inputs = start("afgrl", config, graph, device)
    method, rng = state.method, state.rng
    method.loss(inputs, rng)  # finds positives
    src, dst, n = method.pairs.src, method.pairs.dst, graph.n
    h = method.represent(inputs)
    z, t, x = h.clone().requires_grad_(), F.normalize(h), graph.x.to_dense()
    matrix, adjacency = pair_matrix(src, dst, n), smoothing(graph)
    weight = method.encoder.weights[0]
    k, m = config.n_clusters, config.n_restarts

    def restarts_one_by_one() -> None:
        for _ in range(m):
            kmeans(t, k, n_iters=config.kmeans_iters, generator=rng)

    stages: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "encoder: smooth every step / once": (lambda: adjacency @ (x @ weight), lambda: inputs.propagated.x @ weight),
        "loss: gather pairs / sparse product": (
            lambda: gathered_loss(z, t, src, dst).backward(),
            lambda: pair_loss(z, t, matrix, len(src)).backward(),
        ),
        "k-means: one by one / batched": (
            restarts_one_by_one,
            lambda: kmeans(t, k, n_restarts=m, n_iters=config.kmeans_iters, generator=rng),
        ),
    }
    rows = []
    for name, (plain, ours) in stages.items():
        slow, fast = (median_seconds(call, device, repeats) for call in (plain, ours))
        rows.append({"dataset": dataset, "stage": name, "ratio": round(slow / fast, 2)})
    return rows


def median_seconds(call: Callable[[], Any], device: torch.device, repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="demo")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    device = pick_device("auto")
    rows = compare(given.dataset, device, given.repeats)
    table = Table("stage", "times faster", title=f"{given.dataset}, plain / ours")
    for row in rows:
        table.add_row(row["stage"], f"{row['ratio']:.2f}")
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"epoch-{given.dataset}-{device.type}.json"
    file.write_text(json.dumps({"environment": environment(device), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
