"""Small run folders to show in a page, made without training."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import torch

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.graph import Graph
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec

REGIONS = ("north", "east", "south", "west")


def make_run(path, n=240, *, seed=0, ids=None, columns=None, settings=None, source="letters.csv", name=None):
    """A run with every kind of result."""
    draw = np.random.default_rng(seed)
    run = Run.create(path)
    group = np.arange(n) % len(REGIONS)
    names = np.array(ids if ids is not None else [f"node-{i:03d}" for i in range(n)], dtype=object)
    vectors = (np.eye(len(REGIONS), 16)[group] + 0.15 * draw.normal(size=(n, 16))).astype(np.float32)
    run.save_spec(RunSpec(source, settings={"epochs": 30, "seed": seed} | (settings or {})))
    run.save_embedding(names, vectors)
    table = pa.table({"id": names, **(node_columns(n, group, draw) if columns is None else columns)})
    run.save_dataset(ring_dataset(names, table, name=name))
    corners = np.array([[-2, 0], [0, 1], [2, 0], [0, -1]])
    run.save_projection("tsne", corners[group] + 0.25 * draw.normal(size=(n, 2)))
    for epoch in range(0, 31, 5):
        run.append(HISTORY, history_record(epoch))
    run.save_scores(scores(seed))
    run.save_clusters(names, group.astype(np.int32), clusters(names, group))
    return run


def ring_dataset(ids, columns, label="region", name=None):
    """A ring with random features, and the user's columns."""
    report = IngestReport()
    report.info("Read from letters.csv.")
    report.fixed("Merged 3 duplicate edges.")
    report.warning("5 nodes have equal values in every feature.")
    features = np.random.default_rng(0).normal(size=(len(ids), 12))
    ring = np.arange(len(ids))
    graph = Graph(features, np.stack([ring, np.roll(ring, 1)]), ids=np.asarray(ids))
    return Dataset("letters", graph, ingested=Ingested(columns, len(ids), label, None, report, "id", name))


def bare_run(path, vectors):
    """A run as saved from Python: no source, no labels, no history, no scores."""
    run = Run.create(path)
    run.save_spec(RunSpec("", "afgrl"))
    run.save_dataset(Dataset("graph", Graph(torch.ones(len(vectors), 1), torch.empty(2, 0, dtype=torch.int64))))
    run.save_embedding(np.arange(len(vectors)), np.asarray(vectors, dtype=np.float32))
    return run


def node_columns(n, group, draw):
    return {
        "region": pa.array([REGIONS[number] for number in group]),
        "city": pa.array([None if i % 7 == 0 else f"city {i % 20}" for i in range(n)]),
        "weight": pa.array([None if i % 11 == 0 else float(value) for i, value in enumerate(draw.normal(70, 9, n))]),
        "joined": pa.array(draw.integers(1990, 2025, n)),
    }


def town_columns(n):
    """One column of each type, with names of which "Paris" is the first."""
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(days=40 * i) for i in range(n)]
    return {
        "town": pa.array(["Paris", *(f"town {i}" for i in range(1, n))]),
        "region": pa.array([REGIONS[i % len(REGIONS)] for i in range(n)]),
        "founded": pa.array([None if i == 5 else day for i, day in enumerate(days)]),
        "seen": pa.array([datetime.datetime(2024, 5, 31, i % 24, 30) for i in range(n)]),
        "coastal": pa.array([i % 3 == 0 for i in range(n)]),
        "people": pa.array([1000 * i for i in range(n)]),
    }


def history_record(epoch):
    decay = float(np.exp(-epoch / 8))
    shares = {"pairs": 900, "local": 0.4 + 0.1 * decay, "global": 0.95}
    return {"epoch": epoch, "loss": 2 * decay + 0.05, **shares, "spread": 0.6, "rank": 7.5, "drift": 1 - decay}


def scores(seed, *, best_epoch=False):
    def leaf(mean, n_values):
        return {"mean": mean, "std": 0.4, "values": [mean] * n_values}

    def tasks(gain):
        return {
            "classification": {"accuracy": leaf(80 + gain, 20)},
            "clustering": {name: leaf(0.7 + gain / 100, 10) for name in ("nmi", "homogeneity", "ari")},
            "similarity": {name: leaf(0.8 + gain / 100, 1) for name in ("sim@5", "sim@10")},
            "clustering-readout": {name: leaf(0.75 + gain / 100, 10) for name in ("nmi", "homogeneity", "ari")},
        }

    return {
        "dataset": "letters", "method": "afgrl", "recipe": "default", "seed": seed, "splits": "20 random 10/10/80",
        "last-epoch": tasks(9 + seed), "best-epoch": tasks(10 + seed) if best_epoch else None,
        "baselines": {"random": tasks(5), "hops": tasks(4), "raw": tasks(1)},
    }  # fmt: skip


def clusters(names, group):
    cards = [
        {
            "cluster": number,
            "name": f"mostly {REGIONS[number]}, “word {number}” in 90 % against 10 %",
            "size": int((group == number).sum()),
            "features": [{"name": f"word {number}", "here": 0.9, "elsewhere": 0.1, "texts": ["90 %", "10 %"]}],
            "edges": {"inside": 0, "total": 120},
            "center": (names[group == number].tolist() or [None])[-1],
            "closest": names[group == number][:5].tolist(),
        }
        for number in range(len(REGIONS))
    ]
    tried = [{"k": k, "value": 1 / k} for k in (2, 3, 4)]
    shared = {"k": len(REGIONS), "clustered": "clustering readout", "criterion": "silhouette"}
    return shared | {"tried": tried, "clusters": cards}


def demo_run(folder):
    """The run in the pictures of the documentation: `afgrl demo` with clusters."""
    from afgrl.analysis.clustering import cluster_run
    from afgrl.experiment.evaluation import evaluate_run
    from afgrl.experiment.training import fit

    device = torch.device("cpu")
    run = fit(RunSpec("demo"), folder / "digits", device)
    evaluate_run(run, device)
    cluster_run(run)
    return run
