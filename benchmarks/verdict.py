"""How often the verdict of `afgrl quality`, which uses no labels, agrees with labels.

AFGRL_DATA=DIR python -m benchmarks.verdict --device cpu          # → results/verdict.json, verdict.md
python -m benchmarks.verdict --graphs cora citeseer --device cpu  # a part of it; what the file has is not repeated
python -m benchmarks.verdict --links                              # the same runs again, for link prediction only
python -m benchmarks.verdict --table                              # only the tables, from the JSON file

Each graph is trained without 5 % of its edges with each setting of SETTINGS. By each measure without labels, and by
each score with labels of the same vectors, the trained vectors are better than the best of the training-free ones (raw,
hops, svd, ppr), equal (the difference is within a margin) or worse. The verdict is what some measures say if all say
the same; the truth is the majority of accuracy, NMI and Sim@5. Every set of measures is a candidate rule, with and
without the answer "equal". Leave-one-graph-out: for each graph, the rule with the most right minus wrong answers on the
other graphs; in the same way for each setting, since a rule must not merely tell the settings apart.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from afgrl import DEFAULT_METHOD
from afgrl.analysis.clustering import cluster_vectors
from afgrl.analysis.quality.measures import (
    NEIGHBOR_ROWS,
    Structure,
    cluster_measures,
    sampled_rows,
    vector_measures,
)
from afgrl.analysis.quality.retraining import HIDDEN_SHARE, SCORED_EDGES
from afgrl.analysis.quality.verdict import (
    COMPARED,
    CRITERIA,
    LABEL_CRITERIA,
    RULE,
    TRAINED,
    UNDECIDED,
    WORDS,
    Criterion,
    decide,
    is_collapsed,
    majority,
    vote_of,
)
from afgrl.data import Dataset
from afgrl.data.splits import Splits
from afgrl.evaluate import cluster_scores, logistic_probe, select_labeled, similarity_scores
from afgrl.evaluate.matrix import select_rows
from afgrl.evaluate.unlabeled.links import LinkScores, auc_difference_error, hide_edges, link_scores
from afgrl.experiment.untrained import untrained_embeddings
from afgrl.methods import method_class
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import dataset
from benchmarks.verdict_measures import feature_agreement, matched_pairs

GRAPHS = ("cora", "citeseer", "acm", "uai2010", "blogcatalog", "pubmed", "photo", "computers", "cs", "physics")


class Setting(NamedTuple):
    method: str
    settings: dict[str, Any]
    trains: bool = True


# Good and bad vectors of AFGRL and of other methods, so that the name of the method does not give the truth away.
SETTINGS = {
    "afgrl": Setting("afgrl", {}),
    "afgrl, untrained": Setting("afgrl", {}, trains=False),
    "afgrl, 10 steps, skip none": Setting("afgrl", {"skip": "none", "steps": 10}),
    "afgrl, skip none": Setting("afgrl", {"skip": "none"}),
    "afgrl, 8 components": Setting("afgrl", {"n_components": 8}),
    "dgi, 100 epochs": Setting("dgi", {"epochs": 100}),
    "cca_ssg": Setting("cca_ssg", {}),
    "bgrl, 100 epochs": Setting("bgrl", {"epochs": 100}),
}
DEFAULT = "afgrl"
N_SPLITS, N_FITS = 3, 3  # a cheap probe: the truth only needs to be known up to its margins
STRENGTHS = (4.0, 32.0, 256.0, 2048.0)
# Measures that the panel does not have. Neighbors by raw features have similar features by definition; the wide margin
# is for vectors that have forgotten the features, since averages over neighbors, which are good, have up to 40 % less.
TRIED = (Criterion("matched_auc", "AUC against pairs of nodes with as many edges", 0.01),)
FORGOTTEN = 0.5  # share of the best feature agreement of hops, svd and ppr
BEFORE = "link_auc"  # the measure that gave the verdict before, never undecided
Json = dict[str, Any]


class Rule(NamedTuple):
    """The answer is what all measures say. The guard objects to "better" if the features are forgotten."""

    measures: tuple[str, ...]
    has_equal: bool = False
    is_guarded: bool = False

    def __str__(self) -> str:
        parts = [", ".join(self.measures)]
        parts += ["feature agreement"] if self.is_guarded else []
        return " + ".join(parts) + (", with “equal to”" if self.has_equal else "")


Case = tuple[str, str, Json]  # graph, setting, record


class Measured:
    """One graph without some edges: its vectors without training, measured once, and each setting beside them.

    Of what a file ``known`` has, only link prediction is measured again.
    """

    def __init__(self, name: str, device: torch.device, known: Json) -> None:
        self.name, self.device = name, device
        source = dataset(name)
        assert source.y is not None
        assert source.splits is not None
        self.rows, self.y, splits = select_labeled(source.y, source.splits)
        self.splits = Splits(splits.name, splits.roles[:N_SPLITS])
        generator = np.random.default_rng([0, 0])  # as the panel of a run with seed 0
        self.hidden = hide_edges(source.graph, HIDDEN_SHARE, generator, SCORED_EDGES)
        self.matched = matched_pairs(source.graph, self.hidden.positive, generator, SCORED_EDGES)
        self.graph = self.hidden.graph
        self.features = select_rows(source.graph.x, sampled_rows(source.graph.n, NEIGHBOR_ROWS))
        found = dict(untrained_embeddings(RunSpec(name, "raw"), Dataset(name, self.graph), device))
        self.known, of_any = known, next(iter(known.values()), None)
        self.k = of_any["n_clusters"] if of_any else max(2, cluster_vectors(found["svd"].cpu().numpy()).k)
        self.scores: dict[str, LinkScores] = {}
        self.untrained = {
            name: self.measure(name, found.pop(name), of_any and of_any["vectors"][name])
            for name in COMPARED
            if name in found
        }

    def trained(self, setting: str) -> tuple[Tensor, bool]:
        """The vectors, and whether they contain training-free ones."""
        method, overrides, trains = SETTINGS[setting]
        method = DEFAULT_METHOD if method == "afgrl" else method  # the name of the default when this was measured
        _, settings = RunSpec(self.name, method, settings=overrides).resolved(Dataset(self.name, self.graph))
        state, inputs = initial_state(method, settings, self.graph, self.device)
        if trains:
            training_loop(state, inputs)
        else:
            state.method.complete(inputs)
        return state.method.embed(inputs), method_class(method).keeps_untrained(settings)

    def measure(self, name: str, vectors: Tensor, known: Json | None) -> Json:
        """The measures and the scores of vectors."""
        self.scores[name] = link_scores(vectors, self.hidden.positive, self.hidden.negative)
        return (known or self.measures(vectors)) | {"link_auc": self.scores[name].auc}

    def measures(self, vectors: Tensor) -> Json:
        structure, rows = Structure.of(vectors, self.k), select_rows(vectors, self.rows)
        clusters = cluster_scores(rows, self.y, torch.Generator(rows.device).manual_seed(0), n_fits=N_FITS)
        return {
            **vector_measures(vectors, structure), **cluster_measures(structure.clusters, self.graph),
            "matched_auc": link_scores(vectors, self.hidden.positive, self.matched).auc,
            "feature_agreement": feature_agreement(self.features, structure.neighbors),
            "accuracy": float(np.mean(logistic_probe(rows, self.y, self.splits, STRENGTHS))),
            "nmi": float(np.mean(clusters["nmi"])), "sim@5": similarity_scores(rows, self.y)["sim@5"],
        }  # fmt: skip

    def run(self, setting: str) -> Json:
        vectors, keeps = self.trained(setting)
        known = self.known.get(setting)
        found = {TRAINED: self.measure(TRAINED, vectors, known and known["vectors"][TRAINED])}
        for name, measures in self.untrained.items():
            error = auc_difference_error(self.scores[TRAINED], self.scores[name])
            found[name] = measures | {"link_auc_error": error}
        return {"n_clusters": self.k, "keeps_untrained": keeps, "vectors": found}


def votes(record: Json) -> tuple[dict[str, int], dict[str, int]]:
    """The vote of each measure and of each score with labels."""
    measured, truth = ({} for _ in range(2))
    for found, criteria in ((measured, (*CRITERIA, *TRIED)), (truth, LABEL_CRITERIA)):
        for criterion in criteria:
            vote = vote_of(record["vectors"], criterion)
            assert vote is not None
            found[criterion.measure] = vote["vote"]
    return measured, truth


def cases(answer: Json) -> list[Case]:
    return [(graph, setting, found) for graph, every in answer["measured"].items() for setting, found in every.items()]


def says(record: Json, rule: Rule) -> int | None:
    measured = votes(record)[0]
    found = {measured[name] for name in rule.measures}
    if len(found) > 1:
        return None
    vote = found.pop()
    if vote == 0 and rule.has_equal:
        return 0
    if vote == 1 and rule.is_guarded and forgets(record):
        return None
    own = record["vectors"][TRAINED]
    return decide(vote, keeps_untrained=record["keeps_untrained"], collapsed=is_collapsed(own))


def forgets(record: Json) -> bool:
    agreement = {name: found["feature_agreement"] for name, found in record["vectors"].items()}
    best = max(agreement[name] for name in ("hops", "svd", "ppr") if name in agreement)
    return bool(agreement[TRAINED] < FORGOTTEN * best)


def is_true(record: Json) -> int:
    return majority(votes(record)[1].values())


SHIPPED = Rule(RULE)


def rules() -> list[Rule]:
    names = [criterion.measure for criterion in (*CRITERIA, *TRIED)]
    sets = [chosen for size in range(1, len(names) + 1) for chosen in combinations(names, size)]
    return [Rule(chosen, equal, guard) for chosen in sets for guard in (False, True) for equal in (False, True)]


def counts(pairs: list[tuple[int | None, int]]) -> dict[str, int]:
    """Of answers and truths: how often there was an answer, a right one and the opposite one."""
    decided = [(answer, truth) for answer, truth in pairs if answer is not None]
    return {
        "decided": len(decided), "agreed": sum(answer == truth for answer, truth in decided),
        "opposite": sum(answer * truth == -1 for answer, truth in decided),
    }  # fmt: skip


def gain(pairs: list[tuple[int | None, int]]) -> int:
    """Right minus wrong answers."""
    found = counts(pairs)
    return 2 * found["agreed"] - found["decided"]


def left_out(every: list[Case], position: int) -> dict[str, int]:
    """The counts if each graph (position 0) or setting (1) is answered by the rule chosen on the others; of several
    equally good rules, the one with the fewest measures, then the first."""
    truths = [is_true(record) for *_, record in every]
    answers = {rule: [says(record, rule) for *_, record in every] for rule in rules()}
    pairs: list[tuple[int | None, int]] = []
    for name in dict.fromkeys(case[position] for case in every):
        inside = [i for i, case in enumerate(every) if case[position] == name]
        others = [i for i in range(len(every)) if i not in inside]
        best = max(answers, key=lambda rule: gain([(answers[rule][i], truths[i]) for i in others]))
        pairs += [(answers[best][i], truths[i]) for i in inside]
    return counts(pairs)


def record_of(every: list[Case], rule: Rule = SHIPPED) -> Json:
    """What a rule answered in these runs, beside a constant answer and the verdict as it was before."""
    truths = [is_true(record) for *_, record in every]
    before = [votes(record)[0][BEFORE] for *_, record in every]
    return {
        "runs": len(every), **counts([(says(record, rule), is_true(record)) for *_, record in every]),
        "better": truths.count(1), "most_common_truth": max(truths.count(value) for value in WORDS),
        "before": counts(list(zip(before, truths, strict=True))),
    }  # fmt: skip


def lower(every: list[Case]) -> dict[str, int]:
    """In how many runs the measure is lower than the best baseline's, and how often labels call these runs worse."""
    found = [record for *_, record in every if votes(record)[0][BEFORE] == -1]
    return {"lower": len(found), "lower_and_worse": sum(is_true(record) == -1 for record in found)}


def by_word(every: list[Case]) -> Iterator[tuple[str, dict[str, int]]]:
    pairs = [(says(record, SHIPPED), is_true(record)) for *_, record in every]
    for value, word in ((1, WORDS[1]), (-1, WORDS[-1]), (None, UNDECIDED)):
        truths = [truth for answer, truth in pairs if answer == value]
        yield word, {"given": len(truths), **{WORDS[truth]: truths.count(truth) for truth in WORDS}}


def summary(answer: Json) -> Json:
    """What the verdict may say about itself."""
    every = cases(answer)
    default = [case for case in every if case[1] == DEFAULT]
    return {
        "graphs": len(answer["measured"]), "rule": list(RULE), **record_of(every),
        "leave_one_graph_out": left_out(every, 0), "leave_one_setting_out": left_out(every, 1),
        "default": record_of(default) | lower(default),
        "by_word": dict(by_word(every)),
    }  # fmt: skip


def table(answer: Json) -> str:
    rows: list[list[Entry]] = []
    every = cases(answer)
    for graph, setting, record in every:
        measured, truth = votes(record)
        verdict, right = says(record, SHIPPED), is_true(record)
        signs = [_sign(value) for value in (*measured.values(), *truth.values())]
        agrees = "–" if verdict is None else "yes" if verdict == right else "no"
        rows.append([graph, setting, *signs, UNDECIDED if verdict is None else WORDS[verdict], WORDS[right], agrees])
    names = [criterion.measure for criterion in (*CRITERIA, *TRIED, *LABEL_CRITERIA)]
    heads = [Column(name) for name in ("graph", "vectors", *names, "verdict", "labels", "agree")]
    parts = [Table("Trained vectors against the best training-free ones: + better, 0 equal, - worse", heads, rows)]
    found = answer["summary"]
    heads = [Column("runs"), *(Column(name, 0) for name in ("all", "decided", "right", "opposite", "constant answer"))]
    heads += [Column("before: right", 0), Column("before: opposite", 0)]
    rows = [_record_row("all", found), _record_row("AFGRL's default", found["default"])]
    for setting in SETTINGS:
        part = [case for case in every if case[1] == setting]
        if part and setting != DEFAULT:
            rows.append(_record_row(setting, record_of(part)))
    parts.append(Table("How often the verdict is right", heads, rows))
    heads = [
        Column("verdict"),
        *(Column(name, 0) for name in ("given", *(f"labels: {word}" for word in WORDS.values()))),
    ]
    parts.append(
        Table("What labels say", heads, [[word, *counted.values()] for word, counted in found["by_word"].items()])
    )
    scored = {rule: record_of(every, rule) for rule in rules()}
    shown = sorted(scored, key=lambda rule: scored[rule]["decided"] - 2 * scored[rule]["agreed"])[:8]
    shown += [rule for rule in scored if rule not in shown and len(rule.measures) == 1 and not rule.is_guarded]
    heads = [Column("measures"), *(Column(name, 0) for name in ("decided", "right", "opposite"))]
    rows = [[str(rule), *(scored[rule][name] for name in ("decided", "agreed", "opposite"))] for rule in shown]
    parts.append(Table(f"Other rules, all {len(every)} runs; several measures must say the same", heads, rows))
    head = "<!-- generated by `python -m benchmarks.verdict --table`; do not edit -->"
    return "\n\n".join([f"{head}\n{_notes(answer)}", *(markdown(part).strip() for part in parts)]) + "\n"


def _record_row(title: str, found: Json) -> list[Entry]:
    values = (found[name] for name in ("runs", "decided", "agreed", "opposite", "most_common_truth"))
    return [title, *values, found["before"]["agreed"], found["before"]["opposite"]]


def _notes(answer: Json) -> str:
    found, environment = answer["summary"], answer["environment"]
    graph, setting = found["leave_one_graph_out"], found["leave_one_setting_out"]
    texts = [
        f"{text}: {one['agreed']} right and {one['opposite']} opposite of {one['decided']} decided"
        for text, one in (("leave-one-graph-out", graph), ("leave-one-setting-out", setting))
    ]
    return (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, the last runs by "
        f"`{answer['command']}`. Probe: {N_SPLITS} splits; NMI: {N_FITS} fits of k-means. The verdict uses "
        f"{', '.join(RULE)}. If the rule is chosen instead, among {len(rules())}, "
        f"{'; '.join(texts)}. Before: {BEFORE} alone, never undecided."
    )


def _sign(vote: int) -> str:
    return {1: "+", 0: "0", -1: "-"}[vote]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "verdict.json")
    parser.add_argument("--table", action="store_true", help="run nothing; write the tables from the JSON file")
    parser.add_argument("--links", action="store_true", help="measure link prediction again, of the runs in the file")
    given = parser.parse_args()
    answer = json.loads(given.out.read_text()) if given.out.is_file() else {"measured": {}}
    if not given.table:
        device = choose_device(given.device)
        answer["command"] = f"python -m benchmarks.verdict {shlex.join(sys.argv[1:])}"
        answer["environment"] = current_environment(device)
        for name in given.graphs:
            records = answer["measured"].setdefault(name, {})
            wanted = [setting for setting in given.settings if (setting in records) == given.links]
            if not wanted:
                continue
            graph = Measured(name, device, dict(records) if given.links else {})
            for setting in wanted:
                records[setting] = graph.run(setting)
                given.out.write_text(json.dumps(answer) + "\n")  # after each run: what is done stays
                print(f"{name}, {setting}: done", file=sys.stderr, flush=True)
    answer["summary"] = summary(answer)
    given.out.write_text(json.dumps(answer) + "\n")
    given.out.with_suffix(".md").write_text(table(answer))


if __name__ == "__main__":
    main()
