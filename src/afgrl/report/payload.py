"""All that the page shows of a run, as JSON: for the report inside the file, for the explorer by request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from afgrl.ops import knn
from afgrl.order import command
from afgrl.report.arrays import Json, packed, packed_column, packed_ids
from afgrl.report.plane import plane
from afgrl.runs import Run
from afgrl.tables import BASELINES, COLUMNS

NEIGHBORS = 10
CHARTED = ("accuracy", "nmi", "sim@10")  # one score of each task
SHOWN_COLUMNS = 60  # of the user's: a page of a thousand is of no use, and large
MOST = 32767  # similarities travel as int16: cosine times this


def payload(run: Run, name: str, map_name: str, say: Callable[[str], None], *, neighbors: bool) -> Json:
    """Everything the page needs; ``neighbors`` adds the nearest nodes of every node, which takes time at n²."""
    ids, vectors = run.embedding()
    points = plane(run, map_name, say)
    config = run.config()
    return {
        "name": name,
        "n": len(ids),
        "width": vectors.shape[1],
        "data": _data(run),
        "order": config.get("run", {}),
        "settings": config.get("settings", {}),
        "environment": run.environment(),
        "command": command(run.path, config.get("run", {})),
        "history": _history(run.lines("history.jsonl")),
        "scores": _scores(run),
        "clusters": _clusters(run),
        "map": {"name": map_name, "x": packed(points[:, 0]), "y": packed(points[:, 1])},
        "ids": packed_ids(ids),
        "columns": _columns(run),
        "neighbors": _neighbors(vectors, say) if neighbors else None,
    }


def table_with_cluster(run: Run) -> pa.Table:
    """What is known of each node: ``id``, the user's columns, and the cluster last, where clusters were made."""
    nodes, found = run.nodes(), run.clusters()
    if found is None:
        return nodes
    name = "cluster" if "cluster" not in nodes.column_names else "afgrl cluster"
    return nodes.append_column(name, pa.array(found[0], pa.int32()))


def _columns(run: Run) -> list[Json]:
    table, label = table_with_cluster(run), run.data().get("label")
    clustered = run.clusters() is not None
    found = []
    for place, name in enumerate(table.column_names[1:], start=1):
        own = clustered and place == table.num_columns - 1
        role = "cluster" if own else "label" if name == label else ""
        if place > SHOWN_COLUMNS and not role:
            continue
        found.append(packed_column(name, table.column(place), role=role, category=role != ""))
    return found


def _data(run: Run) -> Json:
    """What was understood of the source, and how much of it the page leaves out."""
    data, n_columns = run.data(), run.nodes().num_columns - 1
    if n_columns <= SHOWN_COLUMNS:
        return data
    told = {"kind": "understood", "text": f"Of {n_columns:,} columns this page shows the first {SHOWN_COLUMNS}."}
    return data | {"notes": [*data.get("notes", []), told]}


def _history(records: list[Json]) -> dict[str, list[Any]]:
    """A list for each thing that was logged, None where it was not."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _clusters(run: Run) -> Json | None:
    found = run.clusters()
    return found[1] if found else None


def _scores(run: Run) -> Json | None:
    """The rows of the table of scores: the trained vectors first, then what needs no training."""
    if not run.has_scores:
        return None
    stored = run.scores()
    rows = [("trained", "trained", stored["label-free"])]
    if stored.get("paper"):
        rows.append(("paper", "trained, epoch picked with labels (paper)", stored["paper"]))
    rows += [("baseline", BASELINES.get(name, name), parts) for name, parts in stored.get("baselines", {}).items()]
    return {
        "dataset": stored.get("dataset"),
        "splits": stored.get("splits"),
        "headings": [_heading(name, title) for _, name, title in COLUMNS],
        "rows": [{"kind": kind, "name": name, "cells": _cells(parts)} for kind, name, parts in rows],
    }


def _heading(name: str, title: str) -> Json:
    return {"title": title, "digits": 2 if name == "accuracy" else 4, "charted": name in CHARTED}


def _cells(parts: Json) -> list[Json | None]:
    """Mean, spread and number of values of each score; None for one that is not there."""
    cells = []
    for task, name, _ in COLUMNS:
        score = parts.get(task, {}).get(name)
        cells.append(score and {"mean": score["mean"], "std": score["std"], "n": len(score["values"])})
    return cells


def _neighbors(vectors: np.ndarray, say: Callable[[str], None]) -> Json:
    n = len(vectors)
    k = min(NEIGHBORS, n - 1)
    if k < 1:
        return {"k": 0, "index": packed(np.zeros(0, np.int32)), "similarity": packed(np.zeros(0, np.int16))}
    say(f"The {k} nearest of each of {n:,} nodes")
    every = torch.from_numpy(vectors)
    found = knn(every, every, k, diagonal="drop")
    similarity = (found.similarity.clamp(-1, 1) * MOST).round().to(torch.int16)
    return {"k": k, "index": packed(found.index.to(torch.int32).numpy()), "similarity": packed(similarity.numpy())}


def names_of(runs: list[Run]) -> list[str]:
    """A short name for each run, none twice: its folder, or as much of its path as it takes."""
    folders = [run.path.resolve() for run in runs]
    for parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(set(folders)):
            break
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[place] = _written(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _written(name: str) -> str:
    """A path's name may hold bytes that are no text."""
    return str(Path(name)).encode("utf-8", "replace").decode("utf-8")
