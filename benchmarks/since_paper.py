"""Methods since the paper beside AFGRL's default, two methods before it and vectors without training, on all graphs.

python -m benchmarks.since_paper --workers 6                   # → results/since-paper.json, results/since-paper.md
python -m benchmarks.since_paper --parts common --graphs cora,citeseer --splits 5 --fits 3       # a part of it
python -m benchmarks.since_paper --cached                      # run nothing; the files from all finished runs

Parts: `common` is one setting for all graphs, the default of each method. `published` are the published settings of the
methods since the paper, on the graphs that have such; Cora, CiteSeer and PubMed with the public split and three
seeds. benchmarks.published compares them with published values. `untrained` are vectors without training. `new-nodes`
trains on nine tenths of the nodes and embeds the others later. Graphs are done one after the other, the smallest
first, so that an interrupted run has all methods on some graphs. Finished runs are cached, the files are written
again after each of them, and the same command continues an interrupted one. Scores that are in the file already, from
the same splits, fits, seeds and settings, stay in it unless they are measured again. WordNet, Debian and Genes: at most
5 splits and 3 fits of k-means.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

import afgrl
from afgrl.config import resolve
from afgrl.experiment.cache import Record, RunCache, loaded, run_grid
from afgrl.experiment.new_nodes import new_node_accuracy
from afgrl.methods import method_class
from afgrl.reproduce.paper import SINCE
from afgrl.runs.environment import current_environment
from afgrl.runs.spec import RunSpec
from afgrl.train.device import choose_device
from benchmarks import RESULTS
from benchmarks.default_rule import BASELINES, baseline, report, spec_of
from benchmarks.since_paper_tables import Json, markdown_file, new_nodes_file, ranks_file

# The smallest first; by nodes, except for CS and Physics, whose features are wide.
GRAPHS = (
    "cora", "acm", "uai2010", "citeseer", "blogcatalog", "photo", "computers", "pubmed", "cs", "physics", "debian",
    "wordnet", "genes",
)  # fmt: skip
TRAINED = ("afgrl", "dgi", "bgrl", *SINCE)
EMBED_LATER = (*TRAINED, "svd", "ppr")
PUBLIC_SPLITS = ("cora", "citeseer", "pubmed")  # on which methods are published with the public split
SEEDS_OF_ONE_SPLIT = 3
PARTS = ("common", "untrained", "published", "new-nodes")
Runs = dict[tuple[str, str, str], list[RunSpec]]  # part, graph and method → one spec per seed


def published_graphs(method: str) -> set[str]:
    """The graphs that have a table of their own in the recipe `paper` of a method."""
    file = resources.files("afgrl.recipes") / f"{method}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8")).get("paper", {}) if file.is_file() else {}
    return {name for name, value in tables.items() if isinstance(value, dict)}


def wanted_runs(given: argparse.Namespace) -> Runs:
    """In the order in which they are run."""
    runs: Runs = {}
    for part in (part for part in given.parts if part in ("common", "published")):
        recipe = "default" if part == "common" else "paper"
        for graph in given.graphs:
            for method in given.methods:
                if method in BASELINES or (part == "published" and graph not in published_graphs(method)):
                    continue
                if part == "published" and method not in SINCE:
                    continue  # `afgrl reproduce` has them
                seeds, changes = given.seeds, {}
                if part == "published" and graph in PUBLIC_SPLITS:  # one split: the authors repeat the training instead
                    seeds, changes = max(given.seeds, SEEDS_OF_ONE_SPLIT), {"splits": "canonical"}
                runs[part, graph, method] = [
                    replace(spec_of(graph, given, seed=seed, **given.set), method=method, recipe=recipe, **changes)
                    for seed in range(seeds)
                ]
    return runs


def later_file(graph: str, method: str, given: argparse.Namespace) -> Path:
    spec = replace(spec_of(graph, given, **given.set), method=method)
    settings = resolve(method_class(method).settings_class, _known(method, given.set), graph=_graph(spec)).model_dump()
    key = hashlib.sha256(json.dumps([settings, afgrl.__version__], sort_keys=True).encode()).hexdigest()[:16]
    return given.cache / f"{graph}-{method}-new-nodes-{key}.json"


def _known(method: str, settings: Json) -> Json:
    fields = method_class(method).settings_class.model_fields if method_class(method).trains else {}
    return {name: value for name, value in settings.items() if name in fields}


def _graph(spec: RunSpec) -> Any:
    return loaded(spec.source, spec.data_dir, spec.splits, spec.directed)[0].graph


def embedded_later(graph: str, method: str, given: argparse.Namespace) -> None:
    """The accuracy on a tenth of the nodes that was not in the training graph; saved in a file."""
    file = later_file(graph, method, given)
    if file.is_file():
        return
    spec = replace(spec_of(graph, given), method=method, settings=_known(method, given.set))
    dataset, device = loaded(spec.source, spec.data_dir, spec.splits, spec.directed)[0], choose_device(given.device)
    try:
        accuracy = new_node_accuracy(spec, dataset, device)
    except torch.OutOfMemoryError:
        report(f"{graph} {method} embedded later is left out: too little GPU memory")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"accuracy": accuracy}))
    if device.type == "cuda":
        torch.cuda.empty_cache()  # other processes run on the same GPU


def assembled(given: argparse.Namespace, runs: Runs) -> Json:
    """Everything that is cached, by part, graph and method."""
    cache, environments = RunCache(given.cache), []
    answer: Json = {part: {} for part in PARTS}
    for (part, graph, method), specs in runs.items():
        records = [record for spec in specs if (record := cache.record(spec)) is not None]
        if len(records) == len(specs):
            answer[part].setdefault(graph, {})[method] = summary(records)
            environments += [record["environment"] for record in records]
    for part, graph, method in side_jobs(given):
        if part == "untrained":
            scores = baseline(graph, method, argparse.Namespace(**vars(given) | {"cached": True}))[2]
            if scores:
                answer[part].setdefault(graph, {})[method] = summary([{"last-epoch": scores}])
        elif (file := later_file(graph, method, given)).is_file():
            answer[part].setdefault(graph, {})[method] = json.loads(file.read_text())
    environment = environments[0] if environments else current_environment(choose_device(given.device))
    asked = {"splits": given.splits or 20, "fits": given.fits, "seeds": given.seeds, "settings": given.set}
    return {"command": given.command, **asked, "environment": environment, **answer}


def with_earlier(answer: Json, earlier: Json) -> Json:
    """Also what is in the file already and was measured in the same way."""
    if any(earlier.get(name) != answer[name] for name in ("splits", "fits", "seeds", "settings")):
        return answer
    merged = answer | {name: earlier[name] for name in ("environment",) if not any(answer[part] for part in PARTS)}
    for part in PARTS:
        old, new = earlier.get(part, {}), answer[part]
        both = {graph: old.get(graph, {}) | new.get(graph, {}) for graph in GRAPHS if graph in old or graph in new}
        order = (*TRAINED, *BASELINES)
        merged[part] = {graph: {name: own[name] for name in order if name in own} for graph, own in both.items()}
    return merged


def side_jobs(given: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """What is not a run: part, graph and method."""
    for part in given.parts:
        names = {"untrained": BASELINES, "new-nodes": EMBED_LATER}.get(part, ())
        for graph in given.graphs:
            yield from ((part, graph, name) for name in names if name in given.methods)


def summary(records: list[Record]) -> Json:
    """The scores, averaged over seeds, with the spread of the accuracy over splits, and time and memory."""
    scores = [record["last-epoch"] for record in records]

    def mean(task: str, name: str, kind: str = "mean") -> float | None:
        values = [each[task][name][kind] for each in scores if task in each]
        return float(np.mean(values)) if values else None

    own: Json = {
        "accuracy": mean("classification", "accuracy"), "spread": mean("classification", "accuracy", "std"),
        "sim@5": mean("similarity", "sim@5"), "nmi": mean("clustering", "nmi"),
        "readout nmi": mean("clustering-readout", "nmi"),
    }  # fmt: skip
    for name in ("seconds", "peak_bytes", "epochs"):
        values = [record[name] for record in records if record.get(name) is not None]
        own[name] = float(np.mean(values)) if values else None
    if commits := {record["environment"]["commit"] for record in records if "environment" in record}:
        own["commit"] = ", ".join(sorted(commits))
    return own


def write(given: argparse.Namespace, runs: Runs) -> None:
    answer = assembled(given, runs)
    if given.out.is_file():
        answer = with_earlier(answer, json.loads(given.out.read_text()))
    texts = {".json": json.dumps(answer, indent=1) + "\n", ".md": markdown_file(answer)}
    if answer["common"]:
        texts["-ranks.md"] = ranks_file(answer)
    if answer["new-nodes"]:
        texts["-new-nodes.md"] = new_nodes_file(answer)
    for ending, text in texts.items():
        file = given.out.with_name(given.out.stem + ending)
        new = file.with_name(f".{file.name}")  # a process that is killed leaves the last complete file
        new.write_text(text)
        new.replace(file)


def measure(given: argparse.Namespace, runs: Runs) -> None:
    """Run what is not cached; the files are written again after each run."""

    def finished(sentence: str) -> None:
        report(sentence)
        write(given, runs)

    device, cache = choose_device(given.device), RunCache(given.cache)
    for part in given.parts:
        specs = [spec for key, own in runs.items() if key[0] == part for spec in own]
        if specs:
            run_grid(specs, cache, device, workers=given.workers, message=finished)
        todo = {"untrained": baseline, "new-nodes": embedded_later}.get(part)
        jobs = [delayed(partial(todo, given=given))(graph, name)
                for own, graph, name in side_jobs(given) if todo and own == part]  # fmt: skip
        for done, _ in enumerate(Parallel(n_jobs=given.workers, return_as="generator_unordered")(jobs), 1):
            finished(f"{part}: {done} of {len(jobs)}")


def _settings(texts: list[str]) -> Json:
    return {name: json.loads(value) for name, _, value in (text.partition("=") for text in texts)}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--methods", default=",".join((*TRAINED, *BASELINES)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--splits", type=int, help="evaluate on the first splits only; by default on all 20")
    parser.add_argument("--fits", type=int, default=10, help="k-means fits per evaluation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="for all runs, for a quick try")
    parser.add_argument("--out", type=Path, default=RESULTS / "since-paper.json")
    parser.add_argument("--cache", type=Path, default=Path("runs/since-paper"), help="folder of the run cache")
    parser.add_argument("--data-dir", help="folder of raw dataset files, also AFGRL_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cached", action="store_true", help="run nothing; write the files from the finished runs")
    given = parser.parse_args(words)
    given.command = " ".join(["python -m benchmarks.since_paper", *(words or [])])
    given.graphs = sorted(given.graphs.split(","), key=GRAPHS.index)
    given.methods, given.set = given.methods.split(","), _settings(given.set)
    return given


def main(words: list[str] | None = None) -> None:
    given = arguments(words)
    runs = wanted_runs(given)
    if not given.cached:
        measure(given, runs)
    write(given, runs)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
