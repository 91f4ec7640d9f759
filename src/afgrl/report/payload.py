"""The JSON that the page shows for a run: inside the file of a report, or on request in the explorer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from afgrl.amounts import counted
from afgrl.analysis.node_facts import Lists, PageFacts
from afgrl.evaluate.columns import BASELINES, COLUMNS, QUALITY_COLUMNS, READOUT_COLUMNS, ScoreColumn
from afgrl.ops.knn import Neighbors, nearest_neighbors
from afgrl.ops.knn.blocks import nearest_in_blocks
from afgrl.report.arrays import Json, pack_array, smallest_type
from afgrl.report.best import best_vectors
from afgrl.report.map_nodes import MAX_COLUMNS, MapNodes
from afgrl.report.sample import Sampling
from afgrl.runs.added import additions, all_vectors
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.in_memory import RunInMemory
from afgrl.runs.spec import RunSpec

N_NEIGHBORS = 10
# Nodes of a report that has all of them. Judgment: the file of 120,000 nodes has up to 40 MB (tests/report), and to
# compare all pairs of more takes longer than a user waits.
MOST_NODES = 200_000
KEY_ROWS = 1 << 16  # that are compared with the sample at a time
SHOWN_SCORES = (*COLUMNS, READOUT_COLUMNS[0])
# One score per task.
CHARTED = (
    ("classification", "accuracy"), ("clustering", "nmi"), ("clustering-readout", "nmi"), ("similarity", "sim@10"),
)  # fmt: skip
MAX_ENTRIES = 1_000_000  # edges of a report, each seen from both ends, and as many words; longer lists are cut
SIMILARITY_SCALE = 32767  # similarities are sent as int16: cosine times this


def run_payload(run: Run, name: str, projection: str, message: Callable[[str], Any]) -> Json:
    """Everything that a report shows, with the nearest nodes of every node and what they have in common. Complexity:
    O(n²·d). Of more than 200,000 nodes it has a sample, the nodes nearest to those, and the density of all."""
    run = RunInMemory(run.path)
    nodes = MapNodes.of_run(run, projection, message)
    n = len(nodes.ids)
    if n <= MOST_NODES:
        rows, start, found = np.arange(n), nodes.packed(), _nearest(run, np.arange(n), message)
    else:
        sampling = Sampling.of(nodes, run)
        sample = sampling.sampled()
        message(f"The report has a sample of {len(sample):,} of {counted(n, 'node')}, and the nodes nearest to them.")
        found = _nearest(run, sample, message)
        rows = np.concatenate([sample, np.setdiff1d(found.index.numpy(), sample)])
        start = sampling.packed_start(rows, len(sample))
    facts = PageFacts.of_run(run, MAX_ENTRIES, None if len(rows) == n else rows)
    parts = {"neighbors": _packed_neighbors(found, rows), "facts": _facts(facts)}
    return page_payload(run, name, start) | parts


def page_payload(run: Run, name: str, nodes: Json) -> Json:
    """What both a report and the explorer show. ``nodes`` are the packed ones that the map starts with."""
    spec = run.spec()
    return {
        "name": name,
        "data": _data(run),
        "spec": _spec(spec),
        "settings": dict(spec.settings),
        "environment": run.environment(),
        "command": spec.command(run.path / "config.toml"),
        "history": _history(run.lines(HISTORY)),
        "scores": _scores(run),
        "quality": _quality(run),
        "clusters": _clusters(run),
        **nodes,
    }


def _facts(facts: PageFacts) -> Json:
    return {"edges": _lists(facts.edges), "words": _lists(facts.words), "names": facts.names}


def _lists(lists: Lists) -> Json:
    return {
        "starts": pack_array(lists.starts.astype(np.int32)),
        "values": pack_array(smallest_type(lists.values)),
        "full": pack_array(smallest_type(lists.full)),
    }


def display_names(runs: list[Run]) -> list[str]:
    """A short unique name per run: the name of its folder, with as many parent folders as needed."""
    folders = [run.path.resolve() for run in runs]
    for n_parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-n_parts:]) for folder in folders]
        if len(set(names)) == len(set(folders)):
            break
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name} ({seen[name]})"
        names[position] = unique.encode("utf-8", "replace").decode("utf-8")  # a path can contain undecodable bytes
    return names


def _spec(spec: RunSpec) -> Json:
    """The spec without its settings, flat: ``evaluation.every``, ``read.id`` …; without unset options."""
    values: Json = {}
    for name, value in (asdict(spec) | {"read": spec.read.given}).items():
        if name != "settings":
            values |= (
                {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
            )
    return {name: value for name, value in values.items() if value not in (None, ())}


def _data(run: Run) -> Json:
    """The description of the data with its ingest report, and messages about added nodes and omitted columns."""
    data, n_columns = run.data(), run.nodes().num_columns - 1
    texts = [f"Added after training: {counted(len(added.ids), 'node')} of {added.name}." for added in additions(run)]
    if n_columns > MAX_COLUMNS:
        texts.append(f"This page shows the first {MAX_COLUMNS} of {n_columns:,} columns.")
    messages = [{"level": "info", "text": text} for text in texts]
    return data | {"messages": [*data.get("messages", []), *messages]} if messages else data


def _history(records: list[Json]) -> dict[str, list[Any]]:
    """One list per logged value, with None for the epochs that did not log it."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _clusters(run: Run) -> Json | None:
    clusters = run.clusters()
    return clusters[1] if clusters else None


def _scores(run: Run) -> Json | None:
    """The rows of the score table: the trained vectors first, then the untrained baselines."""
    if not run.has_scores:
        return None
    stored = run.scores()
    rows = [("trained", "trained, last epoch", stored["last-epoch"])]
    if stored.get("best-epoch"):
        rows.append(("best-epoch", "trained, best epoch", stored["best-epoch"]))
    best = best_vectors(run, stored, SHOWN_SCORES)
    rows += [("baseline", BASELINES.get(name, name), tasks) for name, tasks in stored.get("baselines", {}).items()]
    return {
        "dataset": stored.get("dataset"),
        "splits": stored.get("splits"),
        "headings": [_heading(column) for column in SHOWN_SCORES],
        "rows": [{"kind": kind, "name": name, "cells": _cells(tasks)} for kind, name, tasks in rows],
        "best": best and best._asdict(),
    }


def _quality(run: Run) -> Json | None:
    """The quality panel: its measures as rows, and its other parts as they are stored."""
    panel = run.quality()
    if panel is None:
        return None
    with run.reading("quality.json"):
        rows = [
            {
                "kind": "baseline" if name in BASELINES else "trained",
                "name": BASELINES.get(name, name),
                "cells": [measures.get(column.name) for column in QUALITY_COLUMNS],
            }
            for name, measures in panel["vectors"].items()
        ]
        return {
            "columns": [{"title": column.title, "digits": column.digits} for column in QUALITY_COLUMNS],
            "rows": rows,
            "names": BASELINES,
            "verdict": panel["verdict"]["sentence"],
            **{name: panel[name] for name in ("stability", "labels", "information", "samples", "links", "nodes")},
            "n_clusters": panel["clusters"]["k"],
        }


def _heading(column: ScoreColumn) -> Json:
    charted = (column.task, column.name) in CHARTED
    return {"title": column.title, "digits": column.digits, "charted": charted}


def _cells(tasks: Json) -> list[Json | None]:
    """Mean, standard deviation and number of values of each score; None for a score that was not computed."""
    cells = []
    for task, name, _ in SHOWN_SCORES:
        score = tasks.get(task, {}).get(name)
        cells.append(score and {"mean": score["mean"], "std": score["std"], "n": len(score["values"])})
    return cells


def _nearest(run: Run, rows: np.ndarray, message: Callable[[str], Any]) -> Neighbors:
    """The nearest nodes of these among all, without the node itself."""
    vectors = all_vectors(run)[1]
    n, k = len(vectors), min(N_NEIGHBORS, len(vectors) - 1)
    if k < 1:
        return Neighbors(torch.zeros(len(rows), 0, dtype=torch.int64), torch.zeros(len(rows), 0))
    message(f"Computing the nearest neighbors ({k}) of {counted(len(rows), 'node')}.")
    keys = torch.from_numpy(vectors)
    if len(rows) == n:
        return nearest_neighbors(keys, keys, k, diagonal="drop")
    found = nearest_in_blocks(keys[torch.from_numpy(rows)], keys.split(KEY_ROWS), k + 1)
    own = found.index == torch.from_numpy(rows).unsqueeze(1)
    own[:, -1] |= ~own.any(1)  # of equal vectors, the node itself may not be among the nearest
    return Neighbors(found.index[~own].view(-1, k), found.similarity[~own].view(-1, k))


def _packed_neighbors(found: Neighbors, rows: np.ndarray) -> Json:
    """With the positions of the nearest nodes in ``rows``, which are the nodes of the page."""
    order = np.argsort(rows, kind="stable")
    index = order[np.searchsorted(rows, found.index.numpy(), sorter=order)].astype(np.int32)
    similarity = (found.similarity.clamp(-1, 1) * SIMILARITY_SCALE).round().to(torch.int16)
    return {"k": index.shape[1], "index": pack_array(index), "similarity": pack_array(similarity.numpy())}
