"""How often the verdict of `afgrl quality`, which uses no labels, agrees with labels.

AFGRL_DATA=DIR python -m benchmarks.verdict                       # → results/verdict.json, verdict.md
python -m benchmarks.verdict --graphs cora citeseer --device cpu  # a part of it; what the file has is not repeated
python -m benchmarks.verdict --table                              # only the tables, from the JSON file

Each graph is trained with each setting of SETTINGS, on all edges and without 5 % of them. By each measure without
labels, and by each score with labels, the trained vectors are better than the best of the training-free ones (raw,
hops, svd, ppr), equal (the difference is within a margin) or worse. The verdict is the majority of some measures; the
truth is the majority of accuracy, NMI and Sim@5. Every set of measures is a candidate rule. Leave-one-graph-out: for
each graph, the rule that agrees most often on the other graphs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl.analysis.clustering import cluster_vectors
from afgrl.analysis.quality.measures import Structure, cluster_measures, vector_measures
from afgrl.analysis.quality.retraining import hidden_edges
from afgrl.analysis.quality.verdict import BASELINES, CRITERIA, LABEL_CRITERIA, RULE, TRAINED, WORDS, majority, vote_of
from afgrl.data import Dataset
from afgrl.data.splits import Splits
from afgrl.evaluate import cluster_scores, logistic_probe, select_labeled, similarity_scores
from afgrl.evaluate.matrix import select_rows
from afgrl.evaluate.unlabeled.links import HiddenEdges, link_auc
from afgrl.experiment.untrained import untrained_embeddings
from afgrl.graph import Graph
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import dataset

GRAPHS = ("cora", "citeseer", "acm", "uai2010", "blogcatalog", "pubmed", "photo", "computers", "cs", "physics")
# Name → method and settings. Short training runs of other methods, since a verdict must also recognize bad vectors.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "afgrl": ("afgrl", {}),
    "bgrl, 100 epochs": ("bgrl", {"epochs": 100}),
    "dgi, 100 epochs": ("dgi", {"epochs": 100}),
}
DEFAULT = "afgrl"
N_SPLITS, N_FITS = 3, 3  # a cheap probe: the truth only needs to be known up to its margins
Json = dict[str, Any]


class Measured:
    """One graph: its vectors without training, computed once, and each setting beside them."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.source: Dataset = dataset(name)
        assert self.source.y is not None
        assert self.source.splits is not None
        self.rows, self.y, splits = select_labeled(self.source.y, self.source.splits)
        self.splits = Splits(splits.name, splits.roles[:N_SPLITS])
        self.hidden: HiddenEdges = hidden_edges(self.source.graph, 0)
        self.whole, self.without = (self.untrained(graph) for graph in (self.source.graph, self.hidden.graph))
        self.scores = {name: self.label_scores(vectors) for name, vectors in self.whole.items()}
        self.aucs = {name: self.auc(vectors) for name, vectors in self.without.items()}

    def untrained(self, graph: Graph) -> dict[str, Tensor]:
        source = Dataset(self.name, graph)
        found = dict(untrained_embeddings(RunSpec(self.name, "raw"), source, self.device))
        return {name: found[name] for name in BASELINES if name in found}

    def trained(self, setting: str, graph: Graph) -> Tensor:
        method, overrides = SETTINGS[setting]
        _, settings = RunSpec(self.name, method, settings=overrides).resolved(Dataset(self.name, graph))
        state, inputs = initial_state(method, settings, graph, self.device)
        training_loop(state, inputs)
        return state.method.embed(inputs)

    def auc(self, vectors: Tensor) -> float:
        return link_auc(vectors, self.hidden.positive, self.hidden.negative)

    def label_scores(self, vectors: Tensor) -> dict[str, float]:
        rows = select_rows(vectors, self.rows)
        clusters = cluster_scores(rows, self.y, torch.Generator(rows.device).manual_seed(0), n_fits=N_FITS)
        return {
            "accuracy": float(np.mean(logistic_probe(rows, self.y, self.splits))),
            "nmi": float(np.mean(clusters["nmi"])),
            "sim@5": similarity_scores(rows, self.y)["sim@5"],
        }

    def run(self, setting: str) -> Json:
        """Of the trained vectors and of each baseline: the measures and the scores."""
        vectors, without = (self.trained(setting, graph) for graph in (self.source.graph, self.hidden.graph))
        k = max(2, cluster_vectors(vectors.cpu().numpy()).k)
        found: Json = {}
        for name, rows in {TRAINED: vectors, **self.whole}.items():
            structure = Structure.of(rows, k)
            found[name] = vector_measures(rows, structure) | cluster_measures(structure.clusters, self.source.graph)
            found[name]["link_auc"] = self.aucs[name] if name in self.aucs else self.auc(without)
            found[name] |= self.scores[name] if name in self.scores else self.label_scores(rows)
        return {"n_clusters": k, "vectors": found}


def votes(record: Json) -> tuple[dict[str, int], dict[str, int]]:
    """The vote of each measure and of each score with labels."""
    measured, truth = ({} for _ in range(2))
    for found, criteria in ((measured, CRITERIA), (truth, LABEL_CRITERIA)):
        for criterion in criteria:
            vote = vote_of(record["vectors"], criterion)
            assert vote is not None
            found[criterion.measure] = vote["vote"]
    return measured, truth


def rules() -> list[tuple[str, ...]]:
    names = [criterion.measure for criterion in CRITERIA]
    return [rule for size in range(1, len(names) + 1) for rule in combinations(names, size)]


def agreements(answer: Json) -> Json:
    """For each rule and graph, in how many runs it agrees with the labels."""
    counts: dict[tuple[str, ...], dict[str, int]] = {rule: {} for rule in rules()}
    for graph, records in answer["measured"].items():
        for rule in counts:
            counts[rule][graph] = sum(
                majority(measured[name] for name in rule) == majority(truth.values())
                for measured, truth in map(votes, records.values())
            )
    return counts


def best_rule(counts: Json, graphs: list[str]) -> tuple[str, ...]:
    """The rule that agrees most often on these graphs; of several, the one with the fewest measures, then the first."""
    return max(counts, key=lambda rule: sum(counts[rule][graph] for graph in graphs))


def summary(answer: Json) -> Json:
    """What the verdict may say about itself."""
    measured = answer["measured"]
    counts, every = agreements(answer), {graph: len(records) for graph, records in measured.items()}
    truths = [majority(votes(record)[1].values()) for records in measured.values() for record in records.values()]
    left_out = {
        graph: counts[best_rule(counts, [other for other in measured if other != graph])][graph] for graph in measured
    }
    says = [majority(votes(r)[0][name] for name in RULE) for records in measured.values() for r in records.values()]
    return {
        "graphs": len(measured), "runs": sum(every.values()), "rule": list(RULE),
        "agreed": sum(counts[RULE].values()), "best_rule": list(best_rule(counts, list(measured))),
        "leave_one_graph_out": sum(left_out.values()),
        "most_common_truth": max(truths.count(value) for value in WORDS),
        "opposite": sum(a * b == -1 for a, b in zip(says, truths, strict=True)),
        "default": default_summary(measured),
        "by_verdict": {
            WORDS[value]: {
                "given": says.count(value),
                "agreed": sum(a == b == value for a, b in zip(says, truths, strict=True)),
            }
            for value in WORDS
        },
    }  # fmt: skip


def default_summary(measured: Json) -> Json:
    """The same for the runs with AFGRL's default settings, which are those of most users."""
    both = [votes(records[DEFAULT]) for records in measured.values() if DEFAULT in records]
    says = [majority(found[name] for name in RULE) for found, _ in both]
    truths = [majority(truth.values()) for _, truth in both]
    return {
        "runs": len(both), "agreed": sum(a == b for a, b in zip(says, truths, strict=True)),
        "opposite": sum(a * b == -1 for a, b in zip(says, truths, strict=True)),
        "most_common_truth": max(truths.count(value) for value in WORDS),
    }  # fmt: skip


def table(answer: Json) -> str:
    rows: list[list[Entry]] = []
    for graph, records in answer["measured"].items():
        for setting, record in records.items():
            measured, truth = votes(record)
            says, is_true = majority(measured[name] for name in RULE), majority(truth.values())
            signs = [_sign(value) for value in (*measured.values(), *truth.values())]
            rows.append([graph, setting, *signs, WORDS[says], WORDS[is_true], "yes" if says == is_true else "no"])
    names = [criterion.measure for criterion in (*CRITERIA, *LABEL_CRITERIA)]
    heads = [Column(name) for name in ("graph", "vectors", *names, "verdict", "labels", "agree")]
    first = markdown(
        Table("Trained vectors against the best training-free ones: + better, 0 equal, - worse", heads, rows)
    )
    counts, n_runs = agreements(answer), len(rows)
    shown = sorted(counts, key=lambda rule: -sum(counts[rule].values()))
    shown = [rule for rule in shown if len(rule) == 1 or rule in (RULE, *shown[:5])]
    second = markdown(
        Table(
            f"Agreement of rules with the majority of the labeled scores, of {n_runs} runs",
            [Column("measures"), Column("agreed"), Column("share", 2)],
            [[", ".join(rule), sum(counts[rule].values()), sum(counts[rule].values()) / n_runs] for rule in shown],
        )
    )
    found, environment = summary(answer), answer["environment"]
    default = found["default"]
    notes = (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, the last runs by "
        f"`{answer['command']}`. "
        f"Probe: {N_SPLITS} splits; NMI: {N_FITS} fits of k-means. The verdict uses {', '.join(RULE)}: it agrees in "
        f"{found['agreed']} of {found['runs']} runs on {found['graphs']} graphs, and is the opposite in "
        f"{found['opposite']}. The best rule of all {len(counts)} is {', '.join(found['best_rule'])}; chosen "
        f"leave-one-graph-out, it agrees in {found['leave_one_graph_out']}. Always giving the most common answer of "
        f"the labels agrees in {found['most_common_truth']}. With AFGRL's default settings alone, the verdict agrees "
        f"in {default['agreed']} of {default['runs']} runs and is the opposite in {default['opposite']}; a constant "
        f"answer agrees in {default['most_common_truth']}."
    )
    head = "<!-- generated by `python -m benchmarks.verdict --table`; do not edit -->"
    return f"{head}\n{notes}\n\n{first}\n\n{second}\n"


def _sign(vote: int) -> str:
    return {1: "+", 0: "0", -1: "-"}[vote]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "verdict.json")
    parser.add_argument("--table", action="store_true", help="run nothing; write the tables from the JSON file")
    given = parser.parse_args()
    answer = json.loads(given.out.read_text()) if given.out.is_file() else {"measured": {}}
    if not given.table:
        device = choose_device(given.device)
        answer["command"] = f"python -m benchmarks.verdict {shlex.join(sys.argv[1:])}"
        answer["environment"] = current_environment(device)
        for name in given.graphs:
            records = answer["measured"].setdefault(name, {})
            missing = [setting for setting in given.settings if setting not in records]
            if not missing:
                continue
            graph = Measured(name, device)
            for setting in missing:
                records[setting] = graph.run(setting)
                given.out.write_text(json.dumps(answer) + "\n")  # after each run: what is done stays
                print(f"{name}, {setting}: done", file=sys.stderr, flush=True)
    answer["summary"] = summary(answer)
    given.out.write_text(json.dumps(answer) + "\n")
    given.out.with_suffix(".md").write_text(table(answer))


if __name__ == "__main__":
    main()
