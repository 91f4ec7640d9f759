"""The rule behind AFGRL's default settings: candidates on twelve graphs, chosen leave-one-graph-out.

python -m benchmarks.default_rule --data-dir DIR --workers 6            # → results/default-rule.json, default-rule.md
python -m benchmarks.default_rule --graphs cora,citeseer --splits 5     # a part of it
python -m benchmarks.default_rule --table                               # only the table, from the JSON file

For each graph, the candidate with the best mean rank over accuracy, Sim@5 and NMI on all *other* graphs is reported on
this one. Finished runs are cached; the same command continues an interrupted one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from afgrl.config import resolve
from afgrl.experiment.cache import RunCache, loaded, run_grid
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.device import choose_device
from benchmarks import RESULTS
from benchmarks.graphs import npz_file

NAMED = ("photo", "computers", "cs", "physics", "cora", "citeseer", "pubmed")
FILES = {"acm": "ACM", "blogcatalog": "BlogCatalog", "uai2010": "UAI2010", "wordnet": "WordNet", "debian": "Debian"}
GRAPHS = (*NAMED, *FILES)
BASELINES = ("raw", "hops", "svd", "ppr")
# Title, task and name in scores.json, digits, and how far below the best untrained baseline a score may be.
SCORES = (
    ("accuracy %", "classification", "accuracy", 2, 0.3),
    ("Sim@5", "similarity", "sim@5", 4, 0.005),
    ("NMI, clustering readout", "clustering-readout", "nmi", 4, 0.01),
)
Json = dict[str, Any]
Change = Callable[[AFGRLSettings], Json]

DEFAULT = "default"
CANDIDATES: dict[str, Change] = {  # changes from the default settings of a graph
    DEFAULT: lambda settings: {},
    "half the steps": lambda settings: {"steps": settings.steps // 2},
    "twice the steps": lambda settings: {"steps": 2 * settings.steps},
    "no dropout": lambda settings: {"dropout": 0.0},
    "dropout .3": lambda settings: {"dropout": 0.3},
    "dropout .5": lambda settings: {"dropout": 0.5},
    "dropout .7": lambda settings: {"dropout": 0.7},
    "k = 4": lambda settings: {"n_neighbors": 4},
    "k = 24": lambda settings: {"n_neighbors": 24},
    "one hop": lambda settings: {"n_hops": 1},
    "two hops": lambda settings: {"n_hops": 2},
    "input features": lambda settings: {"input": "features"},
    "input svd": lambda settings: {"input": "svd"},
    "skip none": lambda settings: {"skip": "none", "encoder_width": settings.n_components},
    "skip svd": lambda settings: {"skip": "svd"},
    "skip svd+ppr": lambda settings: {"skip": "svd+ppr"},
    "encoder twice as wide": lambda settings: {"encoder_width": 2 * settings.encoder_width},
    "predictor twice as wide": lambda settings: {"predictor_width": 2 * settings.predictor_width},
    "learning rate 3e-4": lambda settings: {"learning_rate": 3e-4},
    "learning rate 2e-3": lambda settings: {"learning_rate": 2e-3},
    "refresh every 20 steps": lambda settings: {"refresh_every": 20},
    "refresh every 100 steps": lambda settings: {"refresh_every": 100},
    "batches of 512": lambda settings: {"batch_size": 512},
    "momentum .99": lambda settings: {"momentum": 0.99},
    "full batches": lambda settings: {"batch_size": 0},
}


def spec_of(graph: str, data_dir: str | None, plan: EvaluationPlan, **other: Any) -> RunSpec:
    source = graph if graph in NAMED else str(npz_file(FILES[graph], data_dir))
    return RunSpec(source, data_dir=data_dir, splits="random", evaluation=plan, **other)


def specs(graph: str, data_dir: str | None, plan: EvaluationPlan, seeds: Sequence[int]) -> dict[str, list[RunSpec]]:
    """The runs of each baseline and candidate on one graph; a candidate that changes nothing there is the default."""
    own = {name: [spec_of(graph, data_dir, plan, method=name)] for name in BASELINES}
    spec = spec_of(graph, data_dir, plan)
    defaults = resolve(AFGRLSettings, graph=loaded(spec.source, data_dir, "random", None)[0].graph)
    for name, change in CANDIDATES.items():
        changed = {key: value for key, value in change(defaults).items() if value != getattr(defaults, key)}
        own[name] = [spec_of(graph, data_dir, plan, settings={**changed, "seed": seed}) for seed in seeds]
    return own


def measured(graphs: Sequence[str], given: argparse.Namespace) -> Json:
    """Run what is not cached: {graph: {name: {score: mean over seeds}}}, and what was run."""
    plan = EvaluationPlan(n_splits=given.splits, n_fits=given.fits)
    wanted = {graph: specs(graph, given.data_dir, plan, range(given.seeds)) for graph in graphs}
    everything = [spec for own in wanted.values() for runs in own.values() for spec in runs]
    device, cache = choose_device(given.device), RunCache(given.cache)
    records = run_grid(everything, cache, device, workers=given.workers, message=report)
    scores: Json = {}
    for graph, own in wanted.items():
        for name, runs in own.items():
            done = [records[spec]["last-epoch"] for spec in runs if spec in records]
            if done:
                means = {title: _mean(done, task, score) for title, task, score, *_ in SCORES}
                scores.setdefault(graph, {})[name] = means
    environments = [record["environment"] for record in records.values()]
    return {
        "command": " ".join(["python -m benchmarks.default_rule", *sys.argv[1:]]), "splits": given.splits or 20,
        "seeds": given.seeds, "environment": environments[0] if environments else {}, "scores": scores,
    }  # fmt: skip


def _mean(done: list[Json], task: str, score: str) -> float | None:
    values = [each[task][score]["mean"] for each in done if task in each]
    return statistics.mean(values) if values else None


def mean_ranks(scores: Json, graphs: Sequence[str]) -> dict[str, float]:
    """The mean rank of each candidate over graphs and scores, 1 for the best; only those measured on all graphs."""
    names = [name for name in CANDIDATES if all(name in scores[graph] for graph in graphs)]
    ranks: dict[str, list[float]] = {name: [] for name in names}
    for graph in graphs:
        for title, *_ in SCORES:
            values = {name: scores[graph][name][title] for name in names}
            for name, value in values.items():
                better = sum(other > value for other in values.values())
                equal = sum(other == value for other in values.values())
                ranks[name].append(better + (equal + 1) / 2)
    return {name: statistics.mean(own) for name, own in ranks.items()}


def leave_one_out(scores: Json) -> dict[str, str]:
    """For each graph, the candidate with the best mean rank on all other graphs; of equal ones the first."""
    chosen = {}
    for graph in scores:
        ranks = mean_ranks(scores, [other for other in scores if other != graph])
        chosen[graph] = min(ranks, key=lambda name: ranks[name])
    return chosen


def tables(answer: Json) -> str:
    scores, chosen = answer["scores"], leave_one_out(answer["scores"])
    environment = answer["environment"]
    seeds = f"{answer['seeds']} seed" + ("s" if answer["seeds"] > 1 else "")
    lines = [
        "<!-- generated by `python -m benchmarks.default_rule --table`; do not edit -->",
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}, {answer['splits']} random splits, {seeds}, last step: `{answer['command']}`.",
        "Leave-one-graph-out: the candidate with the best mean rank on all other graphs. A value in italics is below "
        "the best untrained baseline by more than .3 points, .005 Sim@5 or .01 NMI.",
    ]
    for title, _, _, digits, tolerance in SCORES:
        columns = [Column("graph"), *(Column(name, digits) for name in (*BASELINES, DEFAULT))]
        columns += [Column("leave-one-graph-out"), Column("its candidate")]
        rows = [_row(graph, scores[graph], title, digits, tolerance, chosen[graph]) for graph in scores]
        lines += ["", markdown(Table(title, columns, rows))]
    ranks = mean_ranks(scores, list(scores))
    changes: list[list[Entry]] = [
        [name, rank, *_changes(scores, name)] for name, rank in sorted(ranks.items(), key=_rank)
    ]
    columns = [Column("candidate"), Column("mean rank", 2), *(Column(t, d, signed=True) for t, _, _, d, _ in SCORES)]
    title = "Each candidate: mean rank, and mean difference from the default over all graphs"
    return "\n".join([*lines, "", markdown(Table(title, columns, changes)), ""])


def _rank(item: tuple[str, float]) -> float:
    return item[1]


def _row(graph: str, own: Json, title: str, digits: int, tolerance: float, chosen: str) -> list[Entry]:
    untrained = [own[name][title] if name in own else None for name in BASELINES]
    best = max((value for value in untrained if value is not None), default=float("-inf"))

    def marked(value: float) -> str:
        text = f"{value:.{digits}f}"
        return f"*{text}*" if value < best - tolerance else text

    return [graph, *untrained, marked(own[DEFAULT][title]), marked(own[chosen][title]), chosen]


def _changes(scores: Json, name: str) -> list[float]:
    return [statistics.mean(own[name][title] - own[DEFAULT][title] for own in scores.values()) for title, *_ in SCORES]


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--splits", type=int, help="evaluate on the first splits only; by default on all 20")
    parser.add_argument("--fits", type=int, default=10, help="k-means fits per evaluation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "default-rule.json")
    parser.add_argument("--cache", type=Path, default=Path("runs/default-rule"), help="folder of the run cache")
    parser.add_argument("--data-dir", help="folder of raw dataset files, also AFGRL_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the JSON file")
    given = parser.parse_args()
    if not given.table:
        given.out.write_text(json.dumps(measured(given.graphs.split(","), given), indent=1) + "\n")
    given.out.with_suffix(".md").write_text(tables(json.loads(given.out.read_text())))


if __name__ == "__main__":
    main()
