"""Two figures of one GPU: exact neighbors among a million rows, and a whole training of Photo from arrays in memory.

python -m benchmarks.large            # → results/large.json
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from afgrl import AFGRL, load
from afgrl.environment import environment
from afgrl.ops import knn
from benchmarks.headline import RESULTS


def neighbors(n: int = 1_000_000, d: int = 256, k: int = 8, checked: int = 2000) -> list[dict[str, Any]]:
    """Seconds, bytes beyond the input, and the share of the true neighbors that is found, by precision."""
    rng = torch.Generator("cuda").manual_seed(0)
    means = torch.randn(1000, d, generator=rng, device="cuda")
    x = means[torch.randint(1000, (n,), generator=rng, device="cuda")]
    x += torch.randn(n, d, generator=rng, device="cuda")
    some = torch.randint(n, (checked,), generator=rng, device="cuda")
    unit = F.normalize(x.double())
    exact = torch.cat([_true(unit[part], unit, part, k) for part in some.split(50)])
    del unit
    rows = []
    for precision in ("bf16", "tf32"):
        knn(x[:1000], x[:1000], k, diagonal="drop", precision=precision)  # compiles
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        found = knn(x, x, k, diagonal="drop", precision=precision)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        recall = (found.index[some].unsqueeze(2) == exact.unsqueeze(1)).any(2).double().mean().item()
        peak = torch.cuda.max_memory_allocated() - before
        rows.append(
            {"n": n, "d": d, "k": k, "precision": precision, "seconds": seconds, "bytes": peak, "recall": recall}
        )
        del found
    return rows


def _true(query: torch.Tensor, key: torch.Tensor, rows: torch.Tensor, k: int) -> torch.Tensor:
    cosine = query @ key.T
    cosine[torch.arange(len(rows), device=rows.device), rows] = -2
    return cosine.topk(k).indices


def photo(repeats: int = 5) -> dict[str, Any]:
    """Seconds from a graph in memory to its vectors, default recipe, kernels compiled; the first one apart."""
    graph = load("photo").graph
    seconds = []
    for seed in range(repeats + 1):
        began = time.perf_counter()
        AFGRL(seed=seed).fit_transform(graph)
        seconds.append(time.perf_counter() - began)
    return {"first": seconds[0], "seconds": statistics.median(seconds[1:]), "repeats": repeats}


def main(out: str = str(RESULTS / "large.json")) -> None:
    answer = {**environment(torch.device("cuda")), "photo": photo(), "neighbors": neighbors()}
    Path(out).write_text(json.dumps(answer, indent=1) + "\n")
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
