"""Small grids of runs that `afgrl reproduce` does not cover, each written as JSON and as a Markdown table.

python -m benchmarks.grids headline            # → results/headline.json, results/headline.md
python -m benchmarks.grids headline --table    # only the table, from the JSON file
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from afgrl.bench.measure import implementation
from afgrl.data import load
from afgrl.experiment.cache import Record, RunCache, run_grid
from afgrl.graph import Graph
from afgrl.ops.kmeans import run_kmeans
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.knn.clusters import nearest_in_clusters
from afgrl.reproduce import overview, scores
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.device import choose_device
from benchmarks import RESULTS
from benchmarks.graphs import npz_file, save_npz_graph
from benchmarks.grid_table import markdown

SEEDS = (0, 1, 2)
DATASETS = ("photo", "computers", "cs", "physics")


@dataclass(frozen=True)
class Row:
    labels: tuple[str, ...]  # the first cells of the row
    specs: tuple[RunSpec, ...] = ()  # one per seed
    ops: str = "auto"  # AFGRL_OPS during training
    published: tuple[float, ...] = ()  # accuracy, NMI and Sim@5 of the paper, in place of runs


@dataclass(frozen=True)
class Grid:
    title: str
    note: str
    columns: tuple[str, ...]  # the titles of ``labels``
    rows: Callable[[str | None, Path], list[Row]]  # from the data folder and a folder for graph files
    protocols: tuple[str, ...] = ("last-epoch",)
    recall: bool = False  # measure the recall of the search in clusters on the final embedding


def headline(data_dir: str | None, folder: Path) -> list[Row]:
    rows = []
    for dataset in DATASETS:
        published = tuple(scores.published_value(known, dataset, "afgrl") for _, known in overview.SCORES)
        spec = RunSpec(dataset, "afgrl", "paper", data_dir=data_dir)
        paper_recipe = replace(spec, evaluation=EvaluationPlan(every=50))
        rows += [
            Row((dataset, "AFGRL, published"), published=published),
            Row((dataset, "AFGRL, `paper` recipe"), over_seeds(paper_recipe)),
            Row((dataset, "AFGRL, `default` recipe"), over_seeds(replace(spec, recipe="default"))),
            Row((dataset, "untrained encoder of the `paper` recipe"), (replace(spec, settings={"epochs": 0}),)),
            Row((dataset, "[X | SX | S²X], not trained"), (replace(spec, method="hops"),)),
            Row((dataset, "raw features"), (replace(spec, method="raw"),)),
        ]
    return rows


# One change each from the `paper` recipe, which follows the authors' code.
DEVIATIONS: dict[str, dict[str, Any]] = {
    "`paper` recipe (the authors' code)": {},
    "batch norm in training mode (text)": {"normalization": "batch"},
    "no normalization": {"normalization": "none"},
    "constant EMA decay (text)": {"schedule": "constant"},
    "one cosine from τ to 1 (ours)": {"schedule": "cosine"},
    "loss over nodes (text)": {"loss_over": "nodes"},
    "without the node itself": {"include_self": False},
    "k-means from the previous centers (ours)": {"warm_start": True},
    "positives every 5 steps, warm start (ours)": {"warm_start": True, "refresh_every": 5},
    "[X | SX] as input (ours, sparse features)": {"n_hops": 1},
}


def deviations(data_dir: str | None, folder: Path) -> list[Row]:
    plan = EvaluationPlan(every=25)
    return [
        Row((name,), (RunSpec("cora", "afgrl", "paper", {"epochs": 100, **settings}, data_dir, "random", None, plan),))
        for name, settings in DEVIATIONS.items()
    ]


# Implementation and precision of the products; the references support float32 and tf32 only.
PATHS = {
    "references, tf32": ("reference", "tf32"),
    "kernels, float32": ("auto", "float32"),
    "kernels, tf32": ("auto", "tf32"),
    "kernels, bf16 search (default)": ("auto", "bf16"),
}


def fidelity(data_dir: str | None, folder: Path) -> list[Row]:
    return [
        Row((name, path), over_seeds(RunSpec(name, "afgrl", settings={"precision": precision}, data_dir=data_dir)), ops)
        for name in DATASETS
        for path, (ops, precision) in PATHS.items()
    ]


NOISE_WEIGHT = 0.1


def weights(data_dir: str | None, folder: Path) -> list[Row]:
    rows = []
    for name in ("cora", "citeseer"):
        dataset = load(name, data_dir=data_dir, splits="random")
        assert dataset.y is not None
        specs: dict[str, list[RunSpec]] = {"original": [], "random edges, with weights": [], "random edges": []}
        for seed in SEEDS:
            noisy = with_noise(dataset.graph, seed)
            graphs = {"random edges, with weights": noisy, "random edges": replace(noisy, edge_weight=None)}
            specs["original"].append(
                RunSpec(name, "afgrl", settings={"seed": seed}, data_dir=data_dir, splits="random")
            )
            for edges, graph in graphs.items():
                file = folder / f"{name}-{'weighted' if graph is noisy else 'unweighted'}-{seed}.npz"
                save_npz_graph(file, graph, dataset.y)
                specs[edges].append(RunSpec(str(file), "afgrl", settings={"seed": seed}))
        rows += [Row((name, edges), tuple(own)) for edges, own in specs.items()]
    return rows


def with_noise(graph: Graph, seed: int) -> Graph:
    """The graph with as many random edges added as it has, with a tenth of their weight."""
    rng = torch.Generator().manual_seed(seed)
    added = torch.randint(graph.n, (2, graph.n_edges), generator=rng)
    once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    weight = torch.cat([torch.ones(once.shape[1]), torch.full((added.shape[1],), NOISE_WEIGHT)])
    return replace(graph, edge_index=torch.cat([once, added], dim=1), edge_weight=weight)


WIDTHS_AND_SEARCHES: dict[str, dict[str, Any]] = {
    f"width {width}, {name}": {"n_components": width, "search": search, "epochs": 100}
    for width in (128, 256, 512)
    for search, name in (("clusters", "search in clusters"), ("exact", "exact search"))
} | {
    f"width 512, exact search, {epochs} epochs": {"n_components": 512, "search": "exact", "epochs": epochs}
    for epochs in (0, 25, 50, 200)
}


def large_defaults(data_dir: str | None, folder: Path) -> list[Row]:
    spec = RunSpec(str(npz_file("wordnet", data_dir)), "afgrl", evaluation=EvaluationPlan(n_splits=5, n_fits=2))
    return [
        Row((name,), over_seeds(replace(spec, settings=settings), SEEDS[:2]))
        for name, settings in WIDTHS_AND_SEARCHES.items()
    ]


def over_seeds(spec: RunSpec, seeds: tuple[int, ...] = SEEDS) -> tuple[RunSpec, ...]:
    return tuple(replace(spec, settings={**spec.settings, "seed": seed}) for seed in seeds)


NEIGHBORS = 4


def recall(vectors: np.ndarray, n_clusters: int, device: torch.device) -> float:
    """The share of the true nearest neighbors that the search in clusters finds."""
    h, rng = torch.from_numpy(vectors).to(device), torch.Generator(device).manual_seed(0)
    clusters = run_kmeans(h, n_clusters, n_restarts=1, n_iters=20, generator=rng)
    found = nearest_in_clusters(h, h, NEIGHBORS, clusters.labels[0], clusters.centers[0], diagonal="drop").index
    true = nearest_neighbors(h, h, NEIGHBORS, diagonal="drop").index
    return float((found.unsqueeze(2) == true.unsqueeze(1)).any(1).double().mean())


GRIDS = {
    "headline": Grid(
        "AFGRL and untrained baselines",
        "best-epoch chooses the epoch with labels, as in the paper, from one evaluation every 50 epochs. The rule of "
        "the `default` recipe was chosen from labeled scores of these same graphs and splits "
        "(results/default-search.json), so its rows do not estimate the scores on other graphs.",
        ("dataset", "vectors"), headline, ("last-epoch", "best-epoch"),
    ),
    "deviations": Grid(
        "One change at a time", "Cora, 100 epochs, one seed, 20 random splits.",
        ("variant",), deviations, ("last-epoch", "best-epoch"),
    ),
    "fidelity": Grid(
        "Scores of the references and of the kernels", "The `default` recipe.", ("dataset", "path"), fidelity
    ),
    "weights": Grid(
        "AFGRL on noisy graphs, with and without edge weights",
        "The `default` recipe. The noisy graphs have as many random edges as original ones; with weights, a random "
        "edge has a tenth of the weight of an original one.",
        ("graph", "edges"), weights,
    ),
    "large-defaults": Grid(
        "Width, search and epochs on a large graph",
        "WordNet (117,659 nodes), the `default` recipe except for the settings in the first column, 100 epochs unless "
        f"it gives another number. Recall: the share of the {NEIGHBORS} true nearest neighbors that a search in "
        "clusters finds.",
        ("settings",), large_defaults, recall=True,
    ),
}  # fmt: skip


def run(name: str, grid: Grid, cache_folder: Path, data_dir: str | None, device: torch.device) -> dict[str, Any]:
    """Run what is not cached, and return the contents of the JSON file."""
    (cache_folder / "graphs").mkdir(parents=True, exist_ok=True)
    rows = grid.rows(data_dir, cache_folder / "graphs")
    records: dict[str, dict[RunSpec, Record]] = {}
    for ops in dict.fromkeys(row.ops for row in rows):
        run_cache = RunCache(cache_folder / ops)  # the cache key does not include the implementation
        specs = [spec for row in rows if row.ops == ops for spec in row.specs]
        with implementation(ops):
            records[ops] = run_grid(specs, run_cache, device, keep_embedding=lambda spec: grid.recall, message=report)
        for spec, record in records[ops].items() if grid.recall else ():
            vectors = run_cache.embedding(spec)
            assert vectors is not None
            record["recall"] = recall(vectors, record["settings"]["n_clusters"], device)
    described = [
        {
            "labels": row.labels, "published": row.published,
            "runs": [records[row.ops][spec] for spec in row.specs if spec in records[row.ops]],
        }
        for row in rows
    ]  # fmt: skip
    return {
        "grid": name, "title": grid.title, "note": grid.note, "columns": grid.columns, "protocols": grid.protocols,
        "rows": described,
    }  # fmt: skip


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(GRIDS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON file and the table")
    parser.add_argument("--cache", type=Path, default=Path("runs/grids"), help="folder of the run cache")
    parser.add_argument("--data-dir", help="folder of raw dataset files, also AFGRL_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the JSON file")
    given = parser.parse_args()
    file = given.out / f"{given.name}.json"
    if not given.table:
        answer = run(given.name, GRIDS[given.name], given.cache, given.data_dir, choose_device(given.device))
        file.write_text(json.dumps(answer) + "\n")
    file.with_suffix(".md").write_text(markdown(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
