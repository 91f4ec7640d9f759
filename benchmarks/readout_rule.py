"""Candidates for the clustering readout on twelve graphs, chosen leave-one-graph-out.

AFGRL_DATA=DIR python -m benchmarks.readout_rule --seeds 2        # → results/readout-rule.json, readout-rule.md
python -m benchmarks.readout_rule cora citeseer                   # a part of it; graphs already in the file stay there
python -m benchmarks.readout_rule --table                         # only the table, from the JSON file

Each candidate puts other parts beside each other before k-means: z are the vectors of the default, h its trained part,
V its svd part, X the features, and PPR their PageRank average. NMI as in the row "clustering-readout" of `afgrl
evaluate`, with fewer fits. Baselines are the present readout of vectors without training.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import resolve
from afgrl.data import Dataset
from afgrl.evaluate import select_labeled
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.readout import MAX_DIRECTIONS, MAX_WIDTH, N_STEPS, TELEPORT, clustering_readout
from afgrl.methods.afgrl import AFGRLMethod, AFGRLSettings
from afgrl.ops.kmeans import sampled_kmeans
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.rows import unit_rows
from afgrl.ops.svd import feature_basis, gram_matrix, leading_eigenvectors
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.default_rule import GRAPHS
from benchmarks.graphs import dataset

N_FITS, N_RESTARTS = 3, 10
PRESENT = "z, PPR z"
Parts = dict[str, Tensor]  # unit rows [n, d]: z, h, V, X, P, and the wider average of each under "PPR z", …

CANDIDATES: dict[str, Callable[[Parts], list[Tensor]]] = {
    PRESENT: lambda p: [p["z"], p["PPR z"]],
    "z, PPR z, .5 X, .5 PPR X": lambda p: [p["z"], p["PPR z"], 0.5 * p["X"], 0.5 * p["PPR X"]],
    "z, PPR z, .7 X, .7 PPR X": lambda p: [p["z"], p["PPR z"], 0.7 * p["X"], 0.7 * p["PPR X"]],
    "z, PPR z, X, PPR X": lambda p: [p["z"], p["PPR z"], p["X"], p["PPR X"]],
    "z, PPR z, .7 X": lambda p: [p["z"], p["PPR z"], 0.7 * p["X"]],
    "z, PPR z, .7 PPR X": lambda p: [p["z"], p["PPR z"], 0.7 * p["PPR X"]],
    "z, 1.4 PPR z": lambda p: [p["z"], 1.4 * p["PPR z"]],
    "PPR z": lambda p: [p["PPR z"]],
    "h, PPR h": lambda p: [p["h"], p["PPR h"]],
    "h, PPR h, V, PPR V": lambda p: [p["h"], p["PPR h"], p["V"], p["PPR V"]],
    "h, PPR h, X, PPR X": lambda p: [p["h"], p["PPR h"], p["X"], p["PPR X"]],
    "h, PPR V": lambda p: [p["h"], p["PPR V"]],
}
CONSENSUS = {"consensus of z and X": ("z", "X"), "consensus of z, X and V": ("z", "X", "V")}
BASELINES = {"raw": "X", "svd": "V", "ppr": "P"}  # and the part that each is


def parts_of(method: AFGRLMethod, inputs: Any, graph_x: Tensor, adjacency: Tensor) -> Parts:
    with torch.no_grad():
        vectors = {
            "z": method.embed(inputs), "h": method.sample(inputs, torch.arange(len(graph_x), device=adjacency.device)),
            "V": method._untrained(inputs)[0], "X": graph_x,
        }  # fmt: skip
    vectors["P"] = pagerank_average(vectors["V"], adjacency)
    parts = {}
    for name, table in vectors.items():
        unit = unit_rows(table)
        if unit.shape[1] > MAX_WIDTH:
            unit = F.normalize(unit @ feature_basis(unit, MAX_WIDTH))
        parts[name] = unit.to_dense()
        parts[f"PPR {name}"] = F.normalize(pagerank_average(parts[name], adjacency, TELEPORT, N_STEPS))
    return parts


def directions(tables: list[Tensor]) -> Tensor:
    table = torch.cat(tables, dim=1)
    return table @ leading_eigenvectors(gram_matrix([table]), MAX_DIRECTIONS)


def consensus(views: list[Tensor], n_clusters: int) -> Tensor:
    """The leading directions of the clusters of several k-means runs on each view, each cluster a column of unit
    length: nodes that share many clusters are close."""
    generator = torch.Generator(views[0].device).manual_seed(1)
    columns = []
    for view in views:
        for n in (n_clusters, 2 * n_clusters, 4 * n_clusters):
            for _ in range(3):
                member = F.one_hot(sampled_kmeans(F.normalize(view), n, generator), n).float()
                columns.append(member / member.sum(0).clamp(min=1).sqrt())
    table = torch.cat(columns, dim=1)
    return table @ leading_eigenvectors(gram_matrix([table]), n_clusters)


def nmi_of_candidates(source: Dataset, seed: int, device: torch.device) -> dict[str, float]:
    assert source.y is not None
    assert source.splits is not None
    rows, y, _ = select_labeled(source.y, source.splits)
    n_classes, graph = int(y.max()) + 1, source.graph.to(device)
    adjacency = gcn_norm(graph)
    state, inputs = initial_state("afgrl", resolve(AFGRLSettings, {"seed": seed}, graph=graph), graph, device)
    training_loop(state, inputs)
    assert isinstance(state.method, AFGRLMethod)
    x = graph.x.to_dense() if device.type == "cuda" else graph.x
    parts = parts_of(state.method, inputs, x, adjacency)

    def nmi(readout: Tensor) -> float:
        generator = torch.Generator(device).manual_seed(0)
        found = cluster_scores(readout[torch.from_numpy(rows)], y, generator, n_fits=N_FITS, n_init=N_RESTARTS)
        return statistics.mean(found["nmi"])

    def chosen(tables: list[Tensor]) -> Tensor:
        return clustering_readout(directions(tables), adjacency, n_classes)

    scores = {name: nmi(chosen(tables(parts))) for name, tables in CANDIDATES.items()}
    for name, views in CONSENSUS.items():
        scores[name] = nmi(consensus([chosen([parts[view], parts[f"PPR {view}"]]) for view in views], n_classes))
    for name, part in BASELINES.items():
        scores[name] = nmi(chosen([parts[part], parts[f"PPR {part}"]]))
    return scores


def mean_ranks(scores: dict[str, dict[str, float]], graphs: list[str]) -> dict[str, float]:
    names = [*CANDIDATES, *CONSENSUS]
    ranks = {name: [1 + sum(scores[g][other] > scores[g][name] for other in names) for g in graphs] for name in names}
    return {name: statistics.mean(own) for name, own in ranks.items()}


def table(answer: dict[str, Any]) -> str:
    scores, environment = answer["scores"], answer["environment"]
    names, graphs = [*CANDIDATES, *CONSENSUS], list(answer["scores"])
    rows: list[list[Entry]] = []
    for graph, own in scores.items():
        others = [other for other in graphs if other != graph]
        ranks = mean_ranks(scores, others) if others else {PRESENT: 1.0}
        best = min(ranks, key=lambda name: ranks[name])
        baseline = max(own[name] for name in BASELINES)
        rows.append([graph, baseline, own[PRESENT], own[best], best])
    columns = [Column("graph"), *(Column(name, 4) for name in ("best baseline", "present", "leave-one-graph-out"))]
    first = markdown(Table("NMI of the clustering readout", [*columns, Column("its candidate")], rows))
    ranks = mean_ranks(scores, graphs)
    means: list[list[Entry]] = [
        [name, ranks[name], statistics.mean(scores[graph][name] for graph in graphs)]
        for name in sorted(names, key=lambda name: ranks[name])
    ]
    second = markdown(
        Table("Each candidate", [Column("candidate"), Column("mean rank", 2), Column("mean NMI", 4)], means)
    )
    notes = (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}, {answer['seeds']} seed(s): `{answer['command']}`."
    )
    head = "<!-- generated by `python -m benchmarks.readout_rule --table`; do not edit -->"
    return f"{head}\n{notes}\n\n{first}\n\n{second}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "readout-rule.json")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the JSON file")
    given = parser.parse_args()
    if not given.table:
        device = choose_device(given.device)
        answer = json.loads(given.out.read_text()) if given.out.is_file() else {"scores": {}}
        answer["command"] = " ".join(["python -m benchmarks.readout_rule", *sys.argv[1:]])
        answer["seeds"], answer["environment"] = given.seeds, current_environment(device)
        for graph in given.graphs:
            source = dataset(graph)
            runs = [nmi_of_candidates(source, seed, device) for seed in range(given.seeds)]
            answer["scores"][graph] = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
            given.out.write_text(json.dumps(answer, indent=1) + "\n")  # after each graph: what is done stays
            print(f"{graph} is done", file=sys.stderr, flush=True)
    given.out.with_suffix(".md").write_text(table(json.loads(given.out.read_text())))


if __name__ == "__main__":
    main()
