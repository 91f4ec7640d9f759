"""Whether AFGRL's default beside the vectors of another method is better than AFGRL's default alone.

AFGRL_DATA=DIR python -m benchmarks.combinations --workers 6      # → results/combinations.json, combinations.md
python -m benchmarks.combinations --seeds 3 --names "afgrl + signa / 2"    # more seeds for some of them
python -m benchmarks.combinations --table                         # only the tables, from the JSON file

A combination has the unit vectors of its members side by side, each with a weight. Every method has its default
settings. What the file has is not repeated. Leave-one-graph-out: for each graph, the combination with the best mean
rank over accuracy, Sim@5 and NMI on all other graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed
from torch import Tensor
from torch.nn import functional as F

from afgrl import DEFAULT_METHOD
from afgrl.evaluate.readout import DENSE_FEATURES, density
from afgrl.experiment.evaluation import last_epoch_scores
from afgrl.experiment.periodic import first_splits
from afgrl.experiment.untrained import readable_features
from afgrl.methods import method_class
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.device import choose_device
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import dataset
from benchmarks.since_paper_tables import RANKED, SCORES, ranks

# The longest first, so that several workers end at about the same time.
GRAPHS = ("physics", "cs", "computers", "pubmed", "photo", "blogcatalog", "citeseer", "uai2010", "acm", "cora")
DEFAULT, SPARSE = "afgrl", "afgrl + signa / 2"  # the second is also a candidate for graphs with sparse features only
# Name → weight of the unit vectors of each method.
COMBINATIONS: dict[str, dict[str, float]] = {
    DEFAULT: {"afgrl": 1.0},
    "afgrl + signa": {"afgrl": 1.0, "signa": 1.0},
    "afgrl + signa / 2": {"afgrl": 1.0, "signa": 0.5},
    "afgrl + dgi / 2": {"afgrl": 1.0, "dgi": 0.5},
    "afgrl + cca_ssg / 2": {"afgrl": 1.0, "cca_ssg": 0.5},
    "afgrl + signa / 2 + cca_ssg / 2": {"afgrl": 1.0, "signa": 0.5, "cca_ssg": 0.5},
    "signa + svd": {"signa": 1.0, "svd": 1.0},
}
TASKS = {"accuracy": ("classification", "accuracy"), "sim@5": ("similarity", "sim@5"),
         "readout nmi": ("clustering-readout", "nmi"), "nmi": ("clustering", "nmi")}  # fmt: skip
RANKED_NAMES = [name for _, name, _ in SCORES[:RANKED]]
Json = dict[str, Any]


def measured(graph: str, seed: int, names: list[str], device_name: str, plan: EvaluationPlan) -> Json:
    """The scores of some combinations on one graph with one seed, and the density of its features."""
    device, source = choose_device(device_name), dataset(graph)
    assert source.y is not None
    assert source.splits is not None
    splits = first_splits(source.splits, plan)
    features, adjacency = readable_features(source.graph, device), gcn_norm(source.graph.to(device))
    vectors: dict[str, Tensor] = {}
    for method in dict.fromkeys(method for name in names for method in COMBINATIONS[name]):
        given = {"seed": seed} if method_class(method).trains else {}
        trained = DEFAULT_METHOD if method == "afgrl" else method  # the name of the default when this was measured
        _, settings = RunSpec(graph, trained, settings=given).resolved(source)
        state, inputs = initial_state(trained, settings, source.graph, device)
        training_loop(state, inputs)
        vectors[method] = F.normalize(state.method.embed(inputs))
    found: Json = {}
    for name in names:
        joined = torch.cat([weight * vectors[method] for method, weight in COMBINATIONS[name].items()], dim=1)
        scores = last_epoch_scores(joined, features, adjacency, source.y, splits, plan.n_fits)
        found[name] = {short: scores[task][score]["mean"] for short, (task, score) in TASKS.items()}
    print(f"{graph}, seed {seed}: done", file=sys.stderr, flush=True)
    return {"scores": found, "density": density(source.graph.x)}


def means(answer: Json) -> Json:
    """The scores by graph and combination, averaged over the seeds that all combinations have, and those of SPARSE."""
    found: Json = {}
    for graph, seeds in answer["scores"].items():
        complete = [own for own in seeds.values() if set(own) >= set(answer["names"])]
        found[graph] = {
            name: {score: statistics.mean(own[name][score] for own in complete) for score in TASKS}
            for name in answer["names"]
        }
        chosen = SPARSE if answer["density"][graph] < DENSE_FEATURES else DEFAULT
        found[graph][f"{SPARSE}, sparse features only"] = found[graph][chosen]
    return found


def mean_ranks(scores: Json, graphs: list[str]) -> dict[str, float]:
    """The mean rank of each combination over the scores and these graphs, 1 for the best."""
    each = [
        ranks({name: own[score] for name, own in scores[graph].items()}) for graph in graphs for score in RANKED_NAMES
    ]
    return {name: statistics.mean(rank[name] for rank in each) for name in each[0]}


def leave_one_out(scores: Json) -> dict[str, str]:
    """For each graph, the combination with the best mean rank on all others."""
    chosen = {}
    for graph in scores:
        found = mean_ranks(scores, [other for other in scores if other != graph])
        chosen[graph] = min(found, key=found.__getitem__)
    return chosen


def gains(scores: Json, chosen: dict[str, str]) -> dict[str, float]:
    """By how much the chosen combinations are better than the default, on average over graphs, by score."""
    return {
        score: statistics.mean(scores[graph][name][score] - scores[graph][DEFAULT][score]
                               for graph, name in chosen.items())
        for score in RANKED_NAMES
    }  # fmt: skip


def tables(answer: Json) -> str:
    scores, environment = means(answer), answer["environment"]
    chosen, found = leave_one_out(scores), mean_ranks(scores, list(scores))
    rows: list[list[Entry]] = []
    for name in found:
        averages = [statistics.mean(own[name][score] for own in scores.values()) for score in RANKED_NAMES]
        better = [
            sum(own[name][score] > own[DEFAULT][score] for own in scores.values()) if name != DEFAULT else None
            for score in RANKED_NAMES
        ]
        rows.append([name, found[name], *(entry for pair in zip(averages, better, strict=True) for entry in pair)])
    heads = [Column("combination"), Column("mean rank", 2)]
    for title, _, digits in SCORES[:RANKED]:
        heads += [Column(title, digits), Column("better on")]
    overview = Table(f"Means over {len(scores)} graphs, and on how many each is better than {DEFAULT}", heads, rows)
    out = Table(
        "Leave-one-graph-out: the combination chosen on the other graphs, and its difference from the default",
        [Column("graph"), Column("chosen"), *(Column(title, digits, True) for title, _, digits in SCORES[:RANKED])],
        [[graph, name, *(scores[graph][name][score] - scores[graph][DEFAULT][score] for score in RANKED_NAMES)]
         for graph, name in chosen.items()],
    )  # fmt: skip
    mean = ", ".join(
        f"{title} {gain:+.{digits + 1}f}"
        for (title, _, digits), gain in zip(SCORES, gains(scores, chosen).values(), strict=False)
    )
    n_seeds = min(
        sum(set(own) >= set(answer["names"]) for own in seeds.values()) for seeds in answer["scores"].values()
    )
    note = (
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}, {answer['splits']} random splits, {answer['fits']} fits of k-means, "
        f"seeds: {n_seeds}, last step: `{answer['command']}`. Mean difference leave-one-graph-out: {mean}."
    )
    head = "<!-- generated by `python -m benchmarks.combinations`; do not edit -->"
    return "\n".join([head, note, "", markdown(overview), markdown(out)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--names", nargs="+", default=list(COMBINATIONS), choices=COMBINATIONS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--fits", type=int, default=3, help="k-means fits per evaluation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "combinations.json")
    parser.add_argument("--table", action="store_true", help="run nothing; write the tables from the JSON file")
    given = parser.parse_args()
    answer = json.loads(given.out.read_text()) if given.out.is_file() else {"scores": {}, "density": {}}
    answer["names"] = list(dict.fromkeys([DEFAULT, SPARSE, *given.names]))
    if not given.table:
        answer |= {
            "command": shlex.join(["python", "-m", "benchmarks.combinations", *sys.argv[1:]]), "splits": given.splits,
            "fits": given.fits, "environment": current_environment(choose_device(given.device)),
        }  # fmt: skip
        plan = EvaluationPlan(n_splits=given.splits, n_fits=given.fits)
        missing = []
        for graph, seed in itertools.product(given.graphs, range(given.seeds)):
            done = answer["scores"].get(graph, {}).get(str(seed), {})
            if names := [name for name in answer["names"] if name not in done]:
                missing.append((graph, seed, names))
        jobs = Parallel(n_jobs=given.workers, return_as="generator")(
            delayed(measured)(*one, given.device, plan) for one in missing
        )
        for (graph, seed, _), own in zip(missing, jobs, strict=True):
            answer["scores"].setdefault(graph, {}).setdefault(str(seed), {}).update(own["scores"])
            answer["density"][graph] = own["density"]
            given.out.write_text(json.dumps(answer, indent=1) + "\n")  # what is done stays
    given.out.with_suffix(".md").write_text(tables(answer))


if __name__ == "__main__":
    main()
