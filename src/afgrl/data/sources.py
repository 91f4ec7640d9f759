"""A source, which is a dataset's name, a file or a folder → Dataset."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from afgrl.data.benchmarks import BENCHMARKS, Counts, load_benchmark
from afgrl.data.dataset import Dataset
from afgrl.data.demo import COUNTS as DEMO_COUNTS
from afgrl.data.demo import load_demo
from afgrl.data.read_keywords import ReadKeywords, with_keywords
from afgrl.data.splits import KEY, UNUSED, Splits, random_splits
from afgrl.data.tables.options import ReadOptions
from afgrl.data.unpacking import home_expanded, is_file_or_folder
from afgrl.errors import UserError, suggestion, unknown

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data

SPLITS = ("auto", "canonical", "random")


def names() -> list[str]:
    """The names of the datasets that ``load`` knows."""
    return ["demo", *BENCHMARKS]


def catalog(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """One row per known dataset: name, title, counts, the folder of its raw files (``available``; None if they are not
    available locally) and the URL they are downloaded from."""
    rows = [_row("demo", "Handwritten digits", DEMO_COUNTS, "included in scikit-learn", None)]
    for name, benchmark in BENCHMARKS.items():
        files = benchmark.raw.available(data_dir)
        folder = str(files[0].parent) if files else None
        rows.append(_row(name, benchmark.title, benchmark.counts, folder, benchmark.raw.url))
    return rows


def _row(name: str, title: str, counts: Counts, available: str | None, url: str | None) -> dict[str, Any]:
    return {"name": name, "title": title, **asdict(counts), "available": available, "url": url}


def load(
    source: str | Path | pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame] | nx.Graph | Data,
    /,
    *,
    data_dir: str | Path | None = None,
    splits: str = "auto",
    seed: int = 0,
    directed: bool | None = None,
    options: ReadOptions = ReadOptions(),
    **read: Unpack[ReadKeywords],
) -> Dataset:
    """The dataset with that name, or from the user's file or folder, read according to ``options``, or to the same
    options by name: ``load("people", id="email", label="team", columns={"zip": "category"}, knn_graph=15)``.
    Tables in memory are read like files: ``load((nodes, edges), label="team")`` for two DataFrames,
    ``load(points, knn_graph=15)`` for one. So are a NetworkX graph with its node attributes and a PyG ``Data`` with
    further attributes of one value per node. The dataset keeps their columns, so that a saved model and its report
    have them.

    ``data_dir`` (also ``AFGRL_DATA``) is a folder of raw files, searched before anything is downloaded.
    ``splits``: "canonical" are the published splits, "random" are 20 random splits that depend on ``seed``, "auto" are
    the canonical ones if the dataset has any, else random ones.
    ``directed=None``: as in the paper, where only WikiCS is directed.

    The options of files are those of `afgrl fit`; what is not given is inferred. ``id``, ``name`` and ``label`` are
    columns of the table of nodes, or "none"; ``source`` and ``target`` are columns of the table of edges; ``nodes`` is
    the table of nodes, if the first argument is a table of edges. ``header`` is "yes" or "no" where a guess about the
    first line of the edges would be wrong. ``na_values`` are more words for a missing value, and
    ``keep_default_na=False`` drops NA, NULL and the like from them, as in pandas.
    """
    options = with_keywords(options, read)
    if splits not in SPLITS:
        raise unknown("type of splits", splits, SPLITS)
    if not isinstance(source, (str, Path)):
        dataset = _load_object(source, options)
    elif source in BENCHMARKS:
        dataset = load_benchmark(str(source), data_dir=data_dir, directed=directed)
    elif directed:
        raise UserError(f"The graph of {str(source)!r} is undirected; only 'wikics' can be loaded as directed.")
    else:
        dataset = replace(load_demo(), splits=None) if source == "demo" else _load_path(_checked_path(source), options)
    is_benchmark = isinstance(source, str) and source in BENCHMARKS
    return _with_splits(dataset, splits, seed, key=None if is_benchmark else KEY)


def _load_path(path: Path, options: ReadOptions) -> Dataset:
    from afgrl.data.files import load_files  # imports scikit-learn, which takes a second

    return load_files(path, options)


def _load_object(source: Any, options: ReadOptions) -> Dataset:
    from afgrl.data.objects import load_object  # imports scikit-learn

    return load_object(source, options)


def _checked_path(source: str | Path) -> Path:
    path = home_expanded(source)
    looks_like_a_path = isinstance(source, Path) or path.suffix or os.sep in source or is_file_or_folder(path)
    if not looks_like_a_path:
        hint = suggestion(str(source), names())
        raise UserError(f"There is no file or folder {source!r}, and no dataset of this name; {hint}")
    return path


def _with_splits(dataset: Dataset, kind: str, seed: int, key: int | None) -> Dataset:
    if kind == "canonical" and dataset.splits is None:
        raise UserError(f"The dataset {dataset.name!r} has no canonical splits; use 'random' or 'auto'.")
    if dataset.y is None or (dataset.splits is not None and kind != "random"):
        return dataset
    return replace(dataset, splits=_splits_of_labeled(dataset.y, seed, key))


def _splits_of_labeled(y: np.ndarray, seed: int, key: int | None) -> Splits:
    """Random splits of the labeled nodes; the others are unused."""
    labeled = y >= 0
    splits = random_splits(int(labeled.sum()), seed, key=key)
    roles = np.full((len(splits), len(y)), UNUSED, dtype=np.uint8)
    roles[:, labeled] = splits.roles
    return Splits(splits.name, roles)
