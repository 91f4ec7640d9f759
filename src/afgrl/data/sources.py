"""What a user may name as the source of a graph."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from afgrl.data.benchmarks import BENCHMARKS, Counts, load_benchmark
from afgrl.data.dataset import Dataset
from afgrl.data.demo import COUNTS as DEMO_COUNTS
from afgrl.data.demo import demo
from afgrl.data.files.options import Options
from afgrl.data.splits import UNUSED, Splits, random_splits
from afgrl.errors import UserError, unknown

SPLITS = ("auto", "canonical", "random")


def names() -> list[str]:
    """The datasets known by name."""
    return ["demo", *BENCHMARKS]


def catalog(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """A row for every dataset known by name: its title and counts, where its raw files lie (None: nowhere
    yet) and the address they would be downloaded from."""
    rows = [_row("demo", "Handwritten digits", DEMO_COUNTS, "inside scikit-learn", None)]
    for name, benchmark in BENCHMARKS.items():
        files = benchmark.raw.at_hand(data_dir)
        where = str(files[0].parent) if files else None
        rows.append(_row(name, benchmark.title, benchmark.counts, where, benchmark.raw.url))
    return rows


def _row(name: str, title: str, counts: Counts, at_hand: str | None, url: str | None) -> dict[str, Any]:
    return {"name": name, "title": title, **asdict(counts), "at_hand": at_hand, "url": url}


def load(
    source: str | Path,
    *,
    data_dir: str | Path | None = None,
    splits: str = "auto",
    seed: int = 0,
    directed: bool | None = None,
    options: Options = Options(),
) -> Dataset:
    """The dataset of that name, or of the user's folder or file at that path, about which ``options`` may tell more.

    ``data_dir`` (also ``AFGRL_DATA``) is a folder of raw files looked at before any download.
    ``splits="auto"`` takes the published splits where there are some, else 20 random ones by ``seed``.
    ``directed=None`` is as in the paper, where only WikiCS was directed.
    """
    if splits not in SPLITS:
        raise unknown("kind of splits", splits, SPLITS)
    if source in BENCHMARKS:
        dataset = load_benchmark(str(source), data_dir=data_dir, directed=directed)
    elif directed:
        raise UserError(f"The graph of {str(source)!r} is undirected; only 'wikics' can be had directed.")
    else:
        dataset = replace(demo(), splits=None) if source == "demo" else _user_files(_checked_path(source), options)
    return _with_splits(dataset, splits, seed)


def _user_files(path: Path, options: Options) -> Dataset:
    from afgrl.data.files.source import load_files  # late: encoding takes scikit-learn, which takes a second

    return load_files(path, options)


def _checked_path(source: str | Path) -> Path:
    path = Path(source).expanduser()
    looks_like_a_path = isinstance(source, Path) or path.suffix or os.sep in source or path.exists()
    if not looks_like_a_path:
        raise unknown("dataset", str(source), names())
    return path


def _with_splits(dataset: Dataset, kind: str, seed: int) -> Dataset:
    if kind == "canonical" and dataset.splits is None:
        raise UserError(f"The dataset {dataset.name!r} has no canonical splits; use 'random' or 'auto'.")
    if dataset.y is None or (dataset.splits is not None and kind != "random"):
        return dataset
    return replace(dataset, splits=_of_labeled(dataset.y, seed))


def _of_labeled(y: np.ndarray, seed: int) -> Splits:
    """Random splits of the nodes that have a label."""
    labeled = y >= 0
    splits = random_splits(int(labeled.sum()), seed)
    roles = np.full((len(splits), len(y)), UNUSED, dtype=np.uint8)
    roles[:, labeled] = splits.roles
    return Splits(splits.name, roles)
