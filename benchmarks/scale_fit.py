"""One graph of ``benchmarks.scale``: `afgrl fit` with its stages, the recall of its search, and NMI.

python -m benchmarks.scale_fit SOURCE RUN --device cuda        # prints one line of JSON
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor
from torch.nn import functional as F

from afgrl.data import Dataset
from afgrl.data.spill import row_blocks
from afgrl.experiment import reading, training
from afgrl.graph import Graph
from afgrl.methods.node_embedder import NodeEmbedderMethod
from afgrl.methods.parts.positive_search import PositiveSearch
from afgrl.ops.kmeans import run_kmeans
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from benchmarks.stage_costs import StageCosts, host_memory

RECALL = "recall"  # the stage that is not part of `afgrl fit`
STAGES = (
    (RunSpec, "load", "read"),
    (RunSpec, "resolved", "settings"),
    (reading, "memory_warning", "settings"),
    (reading, "check_disk", "settings"),
    (Run, "save_dataset", "copy into the run"),
    (Graph, "to", "move to the device"),
    (NodeEmbedderMethod, "prepare", "normalize"),
    (NodeEmbedderMethod, "initialize", "propagation and SVD"),
    (training, "training_loop", "steps"),
    (NodeEmbedderMethod, "_refresh_pull", "refresh: targets"),
    (PositiveSearch, "cluster", "refresh: k-means"),
    (PositiveSearch, "find", "refresh: neighbors"),
    (Run, "save_checkpoint", "checkpoint"),
    (NodeEmbedderMethod, "encode", "vectors"),
    (Run, "save_embedding", "write"),
    (Run, "save_embedding_groups", "write"),
    (Run, "save_model", "write"),
)
N_QUERIES = 1_000
ROUNDING = 1e-6  # difference of one cosine that is summed in two orders
KEY_ROWS = 1 << 17  # of one comparison with all keys
SAMPLE_ROWS, SCORED_ROWS = 100_000, 1_000_000  # k-means is fitted on these, and assigns those
RESTARTS, ITERATIONS = 5, 30


def measure(source: str, folder: Path, device: torch.device, settings: dict[str, Any]) -> dict[str, Any]:
    spec, costs = RunSpec(source, settings=settings), StageCosts(device)
    recalls: list[float] = []
    with costs.watched(), costs.around(*STAGES), measured_recall(costs, recalls), kept_dataset() as datasets:
        run = training.fit(spec, folder, device)
    found = summary(costs) | {"loss": run.lines(HISTORY)[-1]["loss"], "recall": recalls}
    graph, y = datasets[0].graph, datasets[0].y
    used = {name: run.spec().settings[name] for name in ("input", "skip", "n_components", "steps", "refresh_every")}
    counts = {"nodes": graph.n, "edges": graph.n_edges, "features": graph.n_features, "settings": used}
    disk = {"run_bytes": size_of(folder), "source_bytes": size_of(Path(source))}
    if y is None:
        return counts | found | disk
    rows = np.flatnonzero(y >= 0)
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:SCORED_ROWS])
    scores = {
        "nmi": planted_nmi(torch.from_numpy(run.embedding()[1][rows]), y[rows], device),
        "nmi_features": planted_nmi(_dense_rows(graph.x, rows), y[rows], device),
    }
    return counts | found | disk | scores | {"classes": len(np.unique(y[rows])), "scored_nodes": len(rows)}


@contextlib.contextmanager
def kept_dataset() -> Iterator[list[Dataset]]:
    """What is read while it runs, so that it need not be read again."""
    load, found = RunSpec.load, []

    def keeping(self: RunSpec, *arguments: Any) -> Dataset:
        found.append(load(self, *arguments))
        return found[-1]

    with mock.patch.object(RunSpec, "load", keeping):
        yield found


def summary(costs: StageCosts) -> dict[str, Any]:
    """The stages, and their sum or maximum without the measurement of recall."""
    stages = costs.as_json()
    own = [cost for name, cost in stages.items() if name != RECALL]
    return {
        "stages": stages,
        "seconds": round(sum(cost["seconds"] for cost in own), 2),
        **{name: max(cost[name] for cost in own) for name in own[0] if name.endswith("bytes")},
    }


@contextlib.contextmanager
def measured_recall(costs: StageCosts, recalls: list[float]) -> Iterator[None]:
    """After each search for positives, add the share of the nearest other nodes that it found for some queries."""
    search = PositiveSearch.find

    def with_recall(self: PositiveSearch, h: Tensor, t: Tensor, *arguments: Any) -> Any:
        pairs = search(self, h, t, *arguments)
        with costs.stage(RECALL):
            recalls.append(recall(h, t, pairs.dst.view(len(h), -1)))
        return pairs

    with mock.patch.object(PositiveSearch, "find", with_recall):
        yield


def recall(h: Tensor, t: Tensor, found: Tensor) -> float:
    """Of ``found`` [n, k], whose first column are the nodes themselves: the share that is as near as the exact ones.

    Nodes without features may have equal vectors, and any of them is as good.
    """
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(h))[:N_QUERIES]).to(h.device)
    query = F.normalize(h[rows])
    exact = exact_neighbors(query, t, rows, found.shape[1] - 1)
    theirs, ours = (
        (query.unsqueeze(1) * F.normalize(t[index], dim=2)).sum(2) for index in (exact[:, -1:], found[rows, 1:])
    )
    return float((ours >= theirs - ROUNDING).double().mean())


def exact_neighbors(query: Tensor, key: Tensor, own: Tensor, k: int) -> Tensor:
    """The nearest rows of ``key`` by cosine except for ``own``, some keys at a time: [q, k]."""
    best, index = query.new_full((len(query), k), -torch.inf), own.new_zeros(len(query), k)
    for rows in row_blocks(len(key), KEY_ROWS):
        cosine = query @ F.normalize(key[rows]).T
        inside = ((own >= rows.start) & (own < rows.stop)).nonzero().squeeze(1)
        cosine[inside, own[inside] - rows.start] = -torch.inf
        values, at = cosine.topk(min(k, cosine.shape[1]), dim=1)
        best, chosen = torch.cat([best, values], 1).topk(k, dim=1)
        index = torch.cat([index, at + rows.start], 1).gather(1, chosen)
    return index


def planted_nmi(vectors: Tensor, y: np.ndarray, device: torch.device) -> float:
    """NMI of the classes with the clusters of unit rows: k-means on a sample, then the nearest center of each row."""
    x, k = F.normalize(vectors.to(device)), len(np.unique(y))
    rng = torch.Generator(device).manual_seed(0)
    sample = x[:: max(1, len(x) // SAMPLE_ROWS)]
    fits = run_kmeans(sample, k, n_restarts=RESTARTS, n_iters=ITERATIONS, generator=rng, init="k-means++")
    best = fits.centers[fits.inertia.argmin()].unsqueeze(0)
    labels = run_kmeans(x, k, n_iters=0, centers=best).labels[0]
    return round(float(normalized_mutual_info_score(y, labels.cpu().numpy())), 4)


def _dense_rows(x: Tensor, rows: np.ndarray) -> Tensor:
    """Some rows of the features; wide ones are projected at random, which keeps angles nearly as they are."""
    if x.layout != torch.sparse_csr:
        return x[torch.from_numpy(rows)]
    projection = torch.randn(x.shape[1], 256, generator=torch.Generator().manual_seed(0))
    return (x @ projection)[torch.from_numpy(rows)]


def size_of(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source")
    parser.add_argument("run", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--settings", type=json.loads, default={})
    chosen = parser.parse_args()
    before = host_memory()[0]
    found = measure(chosen.source, chosen.run, choose_device(chosen.device), chosen.settings)
    print(json.dumps(found | {"program_bytes": before}))


if __name__ == "__main__":
    main()
