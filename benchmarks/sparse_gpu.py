"""Training with sparse features on a GPU: with a dense table of them, and without.

AFGRL_DATA=DIR python -m benchmarks.sparse_gpu          # → results/sparse-gpu.json

Above 16 GiB, features stay sparse on a GPU. Here the limit is set to 0, so that graphs which would fit take the same
path, and both are compared: seconds from graph to vectors, peak GPU memory, and accuracy on three splits.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afgrl.data.splits import Splits
from afgrl.evaluate import logistic_probe, select_labeled
from afgrl.evaluate.matrix import select_rows
from afgrl.ops.sparse import layout
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import dataset

LIMITS = {"dense": layout.MAX_DENSE_ON_GPU, "sparse": 0}


def measured(graph: str, path: str, device: torch.device) -> dict[str, Any]:
    layout.MAX_DENSE_ON_GPU = LIMITS[path]
    source = dataset(graph)
    assert source.y is not None
    assert source.splits is not None
    _, settings = RunSpec(graph).resolved(source)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats(device)
    begin = time.perf_counter()
    state, inputs = initial_state("node_embedder", settings, source.graph, device)
    training_loop(state, inputs)
    vectors = state.method.embed(inputs)
    torch.cuda.synchronize()
    seconds, peak = time.perf_counter() - begin, torch.cuda.max_memory_allocated(device)
    rows, y, splits = select_labeled(source.y, source.splits)
    accuracy = float(np.mean(logistic_probe(select_rows(vectors, rows), y, Splits("", splits.roles[:3]))))
    return {"graph": graph, "path": path, "seconds": seconds, "peak_bytes": peak, "accuracy": accuracy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["cora", "cs", "debian"])
    parser.add_argument("--out", type=Path, default=RESULTS / "sparse-gpu.json")
    given, device = parser.parse_args(), torch.device("cuda")
    for path in LIMITS:
        measured("cora", path, device)  # kernels are compiled
    found = [measured(graph, path, device) for graph in given.graphs for path in LIMITS]
    answer = {"command": "python -m benchmarks.sparse_gpu", "environment": current_environment(device), "runs": found}
    given.out.write_text(json.dumps(answer, indent=1) + "\n")
    for run in found:
        print(run)


if __name__ == "__main__":
    main()
