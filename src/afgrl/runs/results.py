"""What commands compute from a run and store in it. Each result is one file, so it changes by one rename."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from afgrl.errors import UserError
from afgrl.runs.files import write_table
from afgrl.runs.readers import check, check_record, read_array, read_arrays, read_json, read_record, read_table, reading

CLUSTERS_KEY = b"afgrl"  # the description of clusters, in the metadata of clusters.parquet
CLUSTERS_JSON = "clusters.json"  # where earlier versions stored it


def write_clusters(file: Path, ids: np.ndarray, clusters: np.ndarray, description: dict[str, Any]) -> None:
    """The cluster of each node together with the description of the clusters."""
    table = pa.table({"id": pa.array(ids), "cluster": pa.array(clusters, pa.int32())})
    write_table(file, table.replace_schema_metadata({CLUSTERS_KEY: json.dumps(description)}))
    file.with_name(CLUSTERS_JSON).unlink(missing_ok=True)


def read_clusters(file: Path, n: int | None = None) -> tuple[np.ndarray, dict[str, Any]] | None:
    """The clusters of the first ``n`` nodes, and their description; None before `afgrl cluster`.

    Nodes that were added to the run come after those that it was trained on, which the description is about.
    """
    if not file.is_file():
        return None
    table, earlier = read_table(file), file.with_name(CLUSTERS_JSON)
    with reading(file):
        stored = (table.schema.metadata or {}).get(CLUSTERS_KEY)
        if stored is None and not earlier.is_file():
            return None  # an earlier version was killed between its two files
        description = json.loads(stored) if stored is not None else read_json(earlier)
        check_record(description, {"k": int, "clusters": list, "tried": list, "criterion": str})
        for card in description["clusters"]:
            check_record(card, {"cluster": int, "size": int, "features": list, "closest": list})
        clusters, k = table["cluster"].to_numpy()[:n], description["k"]
        check(clusters.dtype == np.int32 and int(clusters.min()) >= 0, "its clusters are not numbers from 0")
        sizes = [card["size"] for card in description["clusters"]]
        fits = len(sizes) == k and np.bincount(clusters, minlength=k).tolist() == sizes
        check(fits, f"its nodes are not in the {k} clusters that it describes")
        return clusters, description


def read_projection(file: Path) -> np.ndarray | None:
    if not file.is_file():
        return None
    with reading(file):
        points = read_array(file)
        fits = points.ndim == 2 and points.shape[1] == 2 and points.dtype == np.float32
        check(fits, f"its array has the shape {points.shape} and the type {points.dtype}")
        return points


def read_predictions(file: Path) -> np.ndarray | None:
    if not file.is_file():
        return None
    with reading(file):
        classes = read_arrays(file)["classes"]
        fits = classes.ndim == 2 and classes.dtype.kind in "iu"
        check(fits, f"its array has the shape {classes.shape} and the type {classes.dtype}")
        return classes


def read_scores(file: Path) -> dict[str, Any]:
    with reading(file):
        scores = read_record(file, dataset=str, method=str, seed=int, baselines=dict)
        for name, tasks in {"last-epoch": scores["last-epoch"], **scores["baselines"]}.items():
            check(_are_scores(tasks), f"its scores {name!r} are not complete")
        best = scores["best-epoch"]
        check(best is None or _are_scores(best), "its scores 'best-epoch' are not complete")
        return scores


def read_partial_scores(file: Path, key: list[Any]) -> dict[str, Any]:
    """Empty without the file, with another key, and if the file is damaged: scores can be computed again."""
    try:
        with reading(file):
            stored = read_record(file, key=list, scores=dict)
            usable = stored["key"] == key and all(_are_scores(tasks) for tasks in stored["scores"].values())
            return dict(stored["scores"]) if usable else {}
    except UserError:
        return {}


def read_quality(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    with reading(file):
        panel = read_record(file, dataset=str, method=str, nodes=int, vectors=dict, information=dict, samples=dict)
        for name, found in panel["vectors"].items():
            numbers = isinstance(found, dict) and all(_is_number(value) for value in found.values())
            check(numbers, f"its measures {name!r} are not numbers")
        return panel


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _are_scores(tasks: Any) -> bool:
    """Whether these are tasks with their scores; a task may also say its epoch."""
    if not isinstance(tasks, dict) or not all(isinstance(task, dict) for task in tasks.values()):
        return False
    return all(_is_score(entry) for task in tasks.values() for name, entry in task.items() if name != "epoch")


def _is_score(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("values"), list)
        and all(isinstance(entry.get(name), (int, float)) for name in ("mean", "std"))
    )
