"""The rule behind AFGRL's default settings: candidates on twelve graphs, chosen leave-one-graph-out.

python -m benchmarks.default_rule --data-dir DIR --workers 6            # → results/default-rule.json, default-rule.md
python -m benchmarks.default_rule --candidates default --seeds 3 --out results/default.json    # the default alone
python -m benchmarks.default_rule --graphs cora,citeseer --splits 5     # a part of it
python -m benchmarks.default_rule --table                               # only the table, from the JSON file

For each graph, the candidate with the best mean rank over accuracy, Sim@5 and NMI on all *other* graphs is reported on
this one. Vectors without training are measured beside the default alone. Finished runs are cached; the same command
continues an interrupted one. WordNet and Debian are evaluated on
at most 5 splits with at most 3 fits of k-means: their untrained baselines have up to 33,543 columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed

from afgrl.config import resolve
from afgrl.data import Dataset
from afgrl.experiment.cache import RunCache, loaded, run_grid
from afgrl.experiment.evaluation import last_epoch_scores
from afgrl.experiment.periodic import first_splits
from afgrl.experiment.untrained import readable_features
from afgrl.methods import method_class
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.reproduce.layout import Column, Entry, Table, markdown
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.device import choose_device
from afgrl.train.state import initial_state
from benchmarks import RESULTS
from benchmarks.graphs import FILES, npz_file

NAMED = ("photo", "computers", "cs", "physics", "cora", "citeseer", "pubmed")
GRAPHS = (*NAMED, *(name for name in FILES if name != "genes"))  # which is for scale, not for accuracy
LARGE_GRAPHS, LARGE_SPLITS, LARGE_FITS = ("wordnet", "debian", "genes"), 5, 3
BASELINES = ("hops", "raw", "svd", "ppr")
# Title, task and name in scores.json, digits, and how far below the best untrained baseline a score may be.
SCORES = (
    ("accuracy %", "classification", "accuracy", 2, 0.3),
    ("Sim@5", "similarity", "sim@5", 4, 0.005),
    ("NMI, clustering readout", "clustering-readout", "nmi", 4, 0.01),
)
Json = dict[str, Any]
Change = Callable[[NodeEmbedderSettings], Json]

DEFAULT = "default"
CANDIDATES: dict[str, Change] = {  # changes from the default settings of a graph
    DEFAULT: lambda settings: {},
    "half the steps": lambda settings: {"steps": settings.steps // 2},
    "twice the steps": lambda settings: {"steps": 2 * settings.steps},
    "no dropout": lambda settings: {"dropout": 0.0},
    "dropout .5": lambda settings: {"dropout": 0.5},
    "k = 4": lambda settings: {"n_neighbors": 4},
    "k = 12": lambda settings: {"n_neighbors": 12},
    "input own": lambda settings: {"input": "own"},
    "input features": lambda settings: {"input": "features"},
    "input svd": lambda settings: {"input": "svd"},
    "skip none": lambda settings: {"skip": "none", "encoder_width": settings.n_components},
    "skip svd": lambda settings: {"skip": "svd"},
    "skip svd+ppr": lambda settings: {"skip": "svd+ppr"},
    "encoder 1,024 wide": lambda settings: {"encoder_width": 1024},
    "learning rate .002": lambda settings: {"learning_rate": 2e-3},
    "refresh every 50 steps": lambda settings: {"refresh_every": 50},
    "positives without clusters": lambda settings: {"positives": "knn+adj"},
}
# For dense features (results/default-dense.json); measured only if they are named.
FURTHER: dict[str, Change] = {
    "dropout .25": lambda settings: {"dropout": 0.25},
    "600 steps": lambda settings: {"steps": min(600, settings.steps)},
    "skip svd+ppr, 600 steps": lambda settings: {"skip": "svd+ppr", "steps": 600},
    "skip svd+ppr, 600 steps, dropout .3": lambda settings: {"skip": "svd+ppr", "steps": 600, "dropout": 0.3},
    "skip svd+ppr, 600 steps, learning rate .002": lambda settings: {
        "skip": "svd+ppr", "steps": 600, "learning_rate": 2e-3,
    },
    "skip svd+ppr, 600 steps, dropout .25, learning rate .002": lambda settings: {
        "skip": "svd+ppr", "steps": 600, "dropout": 0.25, "learning_rate": 2e-3,
    },
    "skip svd+ppr, 700 steps, dropout .25": lambda settings: {"skip": "svd+ppr", "steps": 700, "dropout": 0.25},
    "700 steps, dropout .25": lambda settings: {"steps": 700, "dropout": 0.25},
    "skip svd+ppr, 700 steps, dropout .25, learning rate .0015": lambda settings: {
        "skip": "svd+ppr", "steps": 700, "dropout": 0.25, "learning_rate": 1.5e-3,
    },
    "800 steps, dropout .2, skip svd": lambda settings: {"skip": "svd", "steps": 800, "dropout": 0.2},
}  # fmt: skip


def plan_of(graph: str, given: argparse.Namespace) -> EvaluationPlan:
    splits, fits = given.splits, given.fits
    if graph in LARGE_GRAPHS:
        splits, fits = min(splits or LARGE_SPLITS, LARGE_SPLITS), min(fits, LARGE_FITS)
    return EvaluationPlan(n_splits=splits, n_fits=fits)


def spec_of(graph: str, given: argparse.Namespace, **settings: Any) -> RunSpec:
    source = graph if graph in NAMED else str(npz_file(graph, given.data_dir))
    plan = plan_of(graph, given)
    return RunSpec(source, data_dir=given.data_dir, splits="random", evaluation=plan, settings=settings)


def specs(graph: str, given: argparse.Namespace) -> dict[str, list[RunSpec]]:
    """The runs of each candidate on one graph; a candidate that changes nothing there is the default."""
    spec = spec_of(graph, given)
    defaults = resolve(NodeEmbedderSettings, graph=_dataset(spec).graph)
    own = {}
    for name in given.candidates:
        change = (CANDIDATES | FURTHER)[name](defaults)
        changed = {key: value for key, value in change.items() if value != getattr(defaults, key)}
        own[name] = [spec_of(graph, given, **changed, seed=seed) for seed in range(given.seeds)]
    return own


def baseline(graph: str, name: str, given: argparse.Namespace) -> tuple[str, str, Json]:
    """The scores of vectors without training. They stay in memory: those of hops can have 16 GB."""
    spec, device = spec_of(graph, given), choose_device(given.device)
    plan = spec.evaluation
    file = given.cache / f"{graph}-{name}-{plan.n_splits}-{plan.n_fits}.json"
    if not file.is_file() and not given.cached:
        dataset = _dataset(spec)
        assert dataset.y is not None
        assert dataset.splits is not None
        settings = resolve(method_class(name).settings_class, graph=dataset.graph)
        try:
            state, inputs = initial_state(name, settings, dataset.graph, device)
            vectors = state.method.embed(inputs)
            vectors = vectors.to_dense() if device.type == "cuda" else vectors
            features, adjacency = readable_features(dataset.graph, device), gcn_norm(dataset.graph.to(device))
            splits = first_splits(dataset.splits, plan)
            scores = last_epoch_scores(vectors, features, adjacency, dataset.y, splits, plan.n_fits)
        except torch.OutOfMemoryError:
            report(f"{graph} {name} is left out: too little GPU memory")
            return graph, name, {}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(scores))
        del state, inputs, vectors
        if device.type == "cuda":
            torch.cuda.empty_cache()  # other processes run on the same GPU
    return graph, name, json.loads(file.read_text()) if file.is_file() else {}


def _dataset(spec: RunSpec) -> Dataset:
    return loaded(spec.source, spec.data_dir, spec.splits, spec.directed)[0]


def measured(graphs: Sequence[str], given: argparse.Namespace) -> Json:
    """Run what is not cached: {graph: {name: {score: mean over seeds}}}, and what was run."""
    device, cache = choose_device(given.device), RunCache(given.cache)
    graphs = sorted(graphs, key=lambda graph: graph not in LARGE_GRAPHS)  # the longest runs first
    wanted = {graph: specs(graph, given) for graph in graphs}
    # Candidate by candidate: if the run is interrupted, those that are done are done on all graphs.
    everything = [spec for name in given.candidates for own in wanted.values() for spec in own[name]]
    records = run_grid(everything, cache, device, workers=given.workers, message=report, cached_only=given.cached)
    untrained = BASELINES if given.candidates == [DEFAULT] else ()  # they do not depend on candidates
    jobs = [delayed(baseline)(graph, name, given) for name in untrained for graph in graphs]
    scores: Json = {graph: {} for graph in GRAPHS if graph in graphs}
    for graph, name, tasks in Parallel(n_jobs=given.workers)(jobs):
        if tasks:
            scores[graph][name] = _means([tasks])
    for graph, own in wanted.items():
        for name, runs in own.items():
            done = [records[spec]["last-epoch"] for spec in runs if spec in records]
            if len(done) == given.seeds:
                scores[graph][name] = _means(done)
    scores = {graph: own for graph, own in scores.items() if DEFAULT in own}
    environments = [record["environment"] for record in records.values()]
    return {
        "command": " ".join(["python -m benchmarks.default_rule", *sys.argv[1:]]), "splits": given.splits or 20,
        "seeds": given.seeds, "note": "", "environment": environments[0] if environments else {}, "scores": scores,
    }  # fmt: skip


def _means(done: list[Json]) -> Json:
    return {title: _mean(done, task, score) for title, task, score, *_ in SCORES}


def _mean(done: list[Json], task: str, score: str) -> float | None:
    values = [each[task][score]["mean"] for each in done if task in each]
    return statistics.mean(values) if values else None


def mean_ranks(scores: Json, graphs: Sequence[str]) -> dict[str, float]:
    """The mean rank of each candidate over graphs and scores, 1 for the best; only those measured on all graphs."""
    names = [name for name in CANDIDATES | FURTHER if all(name in scores[graph] for graph in graphs)]
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
    """For each graph, the candidate with the best mean rank on all other graphs; of equal ones the first.

    Nothing if there is no choice: one candidate, or one graph.
    """
    chosen: dict[str, str] = {}
    if len(scores) < 2 or len(mean_ranks(scores, list(scores))) < 2:
        return chosen
    for graph in scores:
        ranks = mean_ranks(scores, [other for other in scores if other != graph])
        chosen[graph] = min(ranks, key=lambda name: ranks[name])
    return chosen


def tables(answer: Json) -> str:
    scores = answer["scores"]
    environment = answer["environment"]
    seeds = f"{answer['seeds']} seed" + ("s" if answer["seeds"] > 1 else "")
    lines = [
        "<!-- generated by `python -m benchmarks.default_rule --table`; do not edit -->",
        f"Measured on {environment['device']} with torch {environment['versions']['torch']}, commit "
        f"{environment['commit']}, {answer['splits']} random splits, {seeds}, last step: `{answer['command']}`.",
        f"WordNet and Debian: at most {LARGE_SPLITS} splits and {LARGE_FITS} fits of k-means.",
        *([answer["note"]] if answer.get("note") else []),
    ]
    chosen = leave_one_out(scores)
    if chosen:
        lines.append("Leave-one-graph-out: the candidate with the best mean rank on all other graphs.")
    untrained = [name for name in BASELINES if any(name in own for own in scores.values())]
    if untrained:
        limits = "more than .3 points, .005 Sim@5 or .01 NMI"
        lines.append(f"A value in italics is below the best baseline without training by {limits}.")
    for title, _, _, digits, tolerance in SCORES:
        columns = [Column("graph"), *(Column(name, digits) for name in (*untrained, DEFAULT))]
        columns += [Column("leave-one-graph-out"), Column("its candidate")] if chosen else []
        rows = [
            _row(graph, own, untrained, title, digits, tolerance, chosen.get(graph)) for graph, own in scores.items()
        ]
        lines += ["", markdown(Table(title, columns, rows))]
    if not chosen:
        return "\n".join([*lines, ""])
    ranks = mean_ranks(scores, list(scores))
    changes: list[list[Entry]] = [
        [name, rank, *_changes(scores, name)] for name, rank in sorted(ranks.items(), key=_rank)
    ]
    columns = [Column("candidate"), Column("mean rank", 2), *(Column(t, d, signed=True) for t, _, _, d, _ in SCORES)]
    title = "Each candidate: mean rank, and mean difference from the default over all graphs"
    return "\n".join([*lines, "", markdown(Table(title, columns, changes)), ""])


def overview(alone: Json, candidates: Json) -> str:
    """One row per graph: the best baseline, the default, and the choice leave-one-graph-out, with all scores."""
    chosen, rows = leave_one_out(candidates["scores"]), []

    def cell(own: Json) -> str:
        return " / ".join(f"{own[title]:.{digits}f}".removeprefix("0") for title, _, _, digits, _ in SCORES)

    for graph, own in alone["scores"].items():
        best = {title: max(_measured(own, title)) for title, *_ in SCORES}
        other, name = candidates["scores"][graph], chosen[graph]
        rows.append([graph, cell(best), cell(own[DEFAULT]), cell(other[DEFAULT]), cell(other[name]), name])
    columns = ["graph", "best of hops, raw, svd, ppr", "default", "default, one seed", "leave-one-graph-out"]
    title = "accuracy % / Sim@5 / NMI of the clustering readout"
    table = markdown(Table(title, [Column(name) for name in (*columns, "its candidate")], [list(row) for row in rows]))
    environment = alone["environment"]
    notes = (
        f"One {environment['device']}, last step, one default for all graphs. The first two columns: {alone['splits']} "
        f"random splits, {alone['seeds']} seeds (WordNet and Debian: {LARGE_SPLITS} splits), commit "
        f"{environment['commit']}. The others: {candidates['splits']} splits, {candidates['seeds']} seed, commit "
        f"{candidates['environment']['commit']}."
    )
    return f"<!-- generated by `python -m benchmarks.default_rule --table`; do not edit -->\n{notes}\n\n{table}\n"


def _measured(own: Json, title: str) -> list[float]:
    """The scores of the baselines that have this one."""
    return [own[name][title] for name in BASELINES if name in own and own[name][title] is not None]


def _rank(item: tuple[str, float]) -> float:
    return item[1]


def _row(
    graph: str, own: Json, untrained: Sequence[str], title: str, digits: int, tolerance: float, chosen: str | None
) -> list[Entry]:
    baselines = [own[name][title] if name in own else None for name in untrained]
    best = max((value for value in baselines if value is not None), default=float("-inf"))

    def marked(value: float) -> str:
        text = f"{value:.{digits}f}"
        return f"*{text}*" if value < best - tolerance else text

    row: list[Entry] = [graph, *baselines, marked(own[DEFAULT][title])]
    return row if chosen is None else [*row, marked(own[chosen][title]), chosen]


def _changes(scores: Json, name: str) -> list[float]:
    return [statistics.mean(own[name][title] - own[DEFAULT][title] for own in scores.values()) for title, *_ in SCORES]


def report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument(
        "--candidates", nargs="+", choices=CANDIDATES | FURTHER, metavar="NAME", default=list(CANDIDATES)
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--splits", type=int, help="evaluate on the first splits only; by default on all 20")
    parser.add_argument("--fits", type=int, default=10, help="k-means fits per evaluation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "default-rule.json")
    parser.add_argument("--cache", type=Path, default=Path("runs/default-rule"), help="folder of the run cache")
    parser.add_argument("--data-dir", help="folder of raw dataset files, also AFGRL_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cached", action="store_true", help="run nothing; use the finished runs")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the JSON file")
    given = parser.parse_args()
    if not given.table:
        given.out.write_text(json.dumps(measured(given.graphs.split(","), given), indent=1) + "\n")
    given.out.with_suffix(".md").write_text(tables(json.loads(given.out.read_text())))
    both = [RESULTS / "default.json", RESULTS / "default-rule.json"]
    if given.table and all(file.is_file() for file in both):
        (RESULTS / "default-overview.md").write_text(overview(*(json.loads(file.read_text()) for file in both)))


if __name__ == "__main__":
    main()
