"""Two measurements on one GPU: exact neighbors among a million rows, and training on Photo from arrays in memory.

python -m benchmarks.large            # → results/large.json
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl import NodeEmbedder, load
from afgrl.ops.knn import nearest_neighbors
from afgrl.runs.environment import current_environment
from benchmarks import RESULTS


def neighbors(n: int = 1_000_000, d: int = 256, k: int = 8, checked: int = 2000) -> list[dict[str, Any]]:
    """For each precision: seconds, bytes besides the input, and the recall on ``checked`` rows."""
    rng = torch.Generator("cuda").manual_seed(0)
    means = torch.randn(1000, d, generator=rng, device="cuda")
    x = means[torch.randint(1000, (n,), generator=rng, device="cuda")]
    x += torch.randn(n, d, generator=rng, device="cuda")
    sample = torch.randint(n, (checked,), generator=rng, device="cuda")
    unit = F.normalize(x.double())
    exact = torch.cat([_true_neighbors(unit[part], unit, part, k) for part in sample.split(50)])
    del unit
    rows = []
    for precision in ("bf16", "tf32"):
        nearest_neighbors(x[:1000], x[:1000], k, diagonal="drop", precision=precision)  # compiles the kernel
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        found = nearest_neighbors(x, x, k, diagonal="drop", precision=precision)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        recall = (found.index[sample].unsqueeze(2) == exact.unsqueeze(1)).any(2).double().mean().item()
        peak = torch.cuda.max_memory_allocated() - before
        rows.append(
            {"n": n, "d": d, "k": k, "precision": precision, "seconds": seconds, "bytes": peak, "recall": recall}
        )
        del found
    return rows


def _true_neighbors(query: Tensor, key: Tensor, rows: Tensor, k: int) -> Tensor:
    cosine = query @ key.T
    cosine[torch.arange(len(rows), device=rows.device), rows] = -2
    return cosine.topk(k).indices


def photo(repeats: int = 5) -> dict[str, Any]:
    """Seconds from a graph in memory to its vectors, default recipe; the first run, which compiles, is separate."""
    graph = load("photo").graph
    seconds = []
    for seed in range(repeats + 1):
        began = time.perf_counter()
        NodeEmbedder(random_state=seed).fit_transform(graph)
        seconds.append(time.perf_counter() - began)
    return {"first": seconds[0], "seconds": statistics.median(seconds[1:]), "repeats": repeats}


def main() -> None:
    answer = {**current_environment(torch.device("cuda")), "photo": photo(), "neighbors": neighbors()}
    (RESULTS / "large.json").write_text(json.dumps(answer, indent=1) + "\n")
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
