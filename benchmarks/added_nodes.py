"""The cluster of nodes that are added to a run without training (`afgrl add`): which rule chooses it best?

A tenth of the nodes is held out, the others are embedded and clustered, and the tenth is added. Each rule is compared
on the added nodes with the clusters of a run that was trained on all nodes, and with the labels.

AFGRL_DATA=… python -m benchmarks.added_nodes photo pubmed      # → results/added-nodes.json, results/added-nodes.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor
from torch.nn import functional as F

from afgrl import NodeEmbedder
from afgrl.analysis.clustering import cluster_vectors
from afgrl.evaluate import smoothed_directions
from afgrl.experiment.new_nodes import subgraph
from afgrl.graph import Graph
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.reproduce.layout import Column, Entry, Table
from afgrl.reproduce.layout import markdown as markdown_table
from afgrl.runs.environment import current_environment
from afgrl.train.device import choose_device
from benchmarks import RESULTS
from benchmarks.graphs import dataset

HELD_OUT = 0.1
TOGETHER = "trained and clustered together"
MEASURES = ("nmi_with_together", "nmi_with_labels", "accuracy")


@dataclass(frozen=True, eq=False)
class Situation:
    """What a rule may use: vectors of all nodes, the clusters of the trained ones, and the edges of all."""

    graph: Graph
    is_added: np.ndarray  # [n] bool
    vectors: Tensor  # [n, d]: trained nodes as in training, added ones as `afgrl add` embeds them
    labels: Tensor  # [trained] clusters

    @property
    def n_clusters(self) -> int:
        return int(self.labels.max()) + 1


Rule = Callable[[Situation], np.ndarray]  # → [added] clusters


def votes_of_nearest(situation: Situation, n_votes: int, *, smoothed: bool = False) -> np.ndarray:
    """The cluster of most of the nearest trained nodes, weighted by similarity."""
    trained, added = _rows(situation, smoothed)
    nearest = nearest_neighbors(added, trained, n_votes)
    votes = torch.zeros(len(added), situation.n_clusters)
    votes.scatter_add_(1, situation.labels[nearest.index], nearest.similarity.clamp(min=1e-6))
    found: np.ndarray = votes.argmax(1).numpy()
    return found


def nearest_center(situation: Situation, *, smoothed: bool = False) -> np.ndarray:
    """The cluster whose mean of unit vectors is nearest by cosine."""
    trained, added = (F.normalize(rows) for rows in _rows(situation, smoothed))
    centers = torch.zeros(situation.n_clusters, trained.shape[1]).index_add_(0, situation.labels, trained)
    found: np.ndarray = (added @ F.normalize(centers).T).argmax(1).numpy()
    return found


def votes_of_linked(situation: Situation) -> np.ndarray:
    """The cluster of most trained nodes that an edge leads to; of the ten nearest ones for nodes without such edges."""
    number = np.cumsum(~situation.is_added) - 1
    row = np.cumsum(situation.is_added) - 1
    first, second = situation.graph.edge_index.numpy()
    chosen = situation.is_added[first] & ~situation.is_added[second]
    votes = np.zeros((int(situation.is_added.sum()), situation.n_clusters))
    np.add.at(votes, (row[first[chosen]], situation.labels.numpy()[number[second[chosen]]]), 1)
    return np.where(votes.any(1), votes.argmax(1), votes_of_nearest(situation, 10))


def _rows(situation: Situation, smoothed: bool) -> tuple[Tensor, Tensor]:
    """The rows of trained and of added nodes: vectors, or what `afgrl cluster` clusters, over all edges."""
    rows = situation.vectors
    if smoothed:
        rows = smoothed_directions(rows, situation.graph.x, gcn_norm(situation.graph))
    is_added = torch.from_numpy(situation.is_added)
    return rows[~is_added], rows[is_added]


RULES: dict[str, Rule] = {
    "1 nearest node": partial(votes_of_nearest, n_votes=1),
    "10 nearest nodes": partial(votes_of_nearest, n_votes=10),
    "30 nearest nodes": partial(votes_of_nearest, n_votes=30),
    "nearest center": nearest_center,
    "linked nodes, else 10 nearest": votes_of_linked,
    "10 nearest nodes in the readout": partial(votes_of_nearest, n_votes=10, smoothed=True),
    "nearest center in the readout": partial(nearest_center, smoothed=True),
}


def measure(graph: Graph, y: np.ndarray, draw: int, device: str) -> dict[str, Any]:
    """The measures of each rule on the added nodes."""
    is_added = np.zeros(graph.n, dtype=bool)
    is_added[np.random.default_rng(draw).permutation(graph.n)[: int(HELD_OUT * graph.n)]] = True
    n_clusters = int(y.max()) + 1
    trained_graph = subgraph(graph, ~is_added)
    model = NodeEmbedder(device=device).fit(trained_graph)
    vectors = np.empty((graph.n, model.embedding_.shape[1]), dtype=np.float32)
    vectors[~is_added], vectors[is_added] = model.embedding_, model.transform(graph)[is_added]
    labels = cluster_vectors(model.embedding_, n_clusters, graph=trained_graph).labels
    together = NodeEmbedder(device=device).fit(graph).cluster(n_clusters)
    situation = Situation(graph, is_added, torch.from_numpy(vectors), torch.from_numpy(labels.astype(np.int64)))
    found = {rule: scores(choose(situation), labels, together, y, is_added) for rule, choose in RULES.items()}
    found[TOGETHER] = scores(together[is_added], together[~is_added], together, y, is_added)
    return {"draw": draw, "rules": found}


def scores(
    added: np.ndarray, trained: np.ndarray, together: np.ndarray, y: np.ndarray, is_added: np.ndarray
) -> dict[str, float]:
    """On the added nodes: NMI with the clusters of all nodes together and with the labels, and how often the label that
    most trained nodes of the chosen cluster have is the right one, in percent."""
    known = y >= 0
    counts = np.zeros((int(max(added.max(), trained.max())) + 1, int(y.max()) + 1))
    own = known[~is_added]
    np.add.at(counts, (trained[own], y[~is_added][own]), 1)
    tested, truth = known[is_added], y[is_added]
    values = (
        normalized_mutual_info_score(together[is_added], added),
        normalized_mutual_info_score(truth[tested], added[tested]),
        100 * np.mean(counts.argmax(1)[added[tested]] == truth[tested]),
    )
    return {name: float(value) for name, value in zip(MEASURES, values, strict=True)}


def markdown(answer: dict[str, Any]) -> str:
    graphs = answer["graphs"]
    columns = [Column("rule"), *(Column(f"{name}: {shown}", digits) for name in graphs for shown, digits in SHOWN)]
    rows: list[list[Entry]] = []
    for rule in (*RULES, TOGETHER):
        values = [
            float(np.mean([draw["rules"][rule][measure] for draw in run["draws"]]))
            for run in graphs.values()
            for measure in MEASURES
        ]
        rows.append([rule, *values])
    where = "; ".join(
        f"{name}: {len(run['draws'])} draw{'s' * (len(run['draws']) > 1)} on {run['environment']['device']}, commit "
        f"{run['environment']['commit']}"
        for name, run in graphs.items()
    )
    lines = [
        "<!-- generated by `python -m benchmarks.added_nodes …`; do not edit -->",
        f"AFGRL with default settings and as many clusters as classes; {HELD_OUT:.0%} of the nodes were held out and "
        "added. On these nodes: NMI with the clusters of a run on all nodes, NMI with the labels, and the accuracy in "
        f"percent of the label that most trained nodes of the cluster have. {where}.",
        "",
    ]
    return "\n".join(lines) + "\n" + markdown_table(Table("The cluster of added nodes", columns, rows))


SHOWN = (("NMI, together", 3), ("NMI, labels", 3), ("accuracy", 1))  # headings and digits of the measures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--draws", type=int, default=1)
    given = parser.parse_args()
    file = RESULTS / "added-nodes.json"
    answer: dict[str, Any] = {"held_out": HELD_OUT, "graphs": {}}
    if file.is_file():  # other graphs keep their results
        answer = json.loads(file.read_text())
    for name in given.graphs:
        source = dataset(name)
        assert source.y is not None
        command = f"python -m benchmarks.added_nodes {name} --draws {given.draws}"
        answer["graphs"][name] = {
            "environment": current_environment(choose_device(given.device)),
            "command": command,
            "settings": NodeEmbedder().get_params(),
            "draws": [measure(source.graph, source.y, draw, given.device) for draw in range(given.draws)],
        }
        file.write_text(json.dumps(answer, indent=1) + "\n")  # what is done stays if the next one fails
        file.with_suffix(".md").write_text(markdown(answer))
        print(name, json.dumps(answer["graphs"][name]["draws"], indent=1), flush=True)


if __name__ == "__main__":
    main()
