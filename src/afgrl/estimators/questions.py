"""The commands search, cluster, quality, add and remove as functions of a run, its folder, or a fitted estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from afgrl.analysis import added_nodes
from afgrl.analysis.clustering import cluster_run
from afgrl.analysis.neighbors import SimilarNodes, find_similar
from afgrl.analysis.quality.panel import assess_run
from afgrl.estimators.base import MethodEstimator
from afgrl.estimators.saved import Model, RunFolder, as_runs, opened
from afgrl.runs.added import Addition
from afgrl.train.device import choose_device


def search(model: Model, ids: Any, k: int = 10, *, index: bool = False) -> SimilarNodes:
    """The ``k`` nodes most similar to each of the given ones, as `afgrl search` finds them: a dictionary from ids, as
    text, to lists of ``{"id", "similarity", "name", "columns"}``.

    ``ids`` is an id, a name or a unique part of a name, or several of them. ``index`` uses an approximate index, which
    is kept in the run.
    """
    several = ids if (isinstance(ids, Sequence) and not isinstance(ids, str)) or hasattr(ids, "__array__") else [ids]
    with as_runs([model]) as (run,):
        return find_similar(run, [str(one) for one in several], k, index=index)


def cluster(
    model: Model, n_clusters: int | None = None, *, seed: int = 0, plain: bool = False, data_dir: str | None = None
) -> dict[str, Any]:
    """Cluster the nodes and describe what distinguishes each cluster, as `afgrl cluster` does; without ``n_clusters``,
    the number is chosen. ``plain`` clusters the vectors, not their readout.

    The cluster of each node is saved in the run, or kept as ``labels_`` of an estimator.
    """
    with as_runs([model]) as (run,):
        description = cluster_run(run, n_clusters, seed=seed, plain=plain, data_dir=data_dir)
        found = run.clusters()
        if isinstance(model, MethodEstimator) and found is not None:
            model.labels_ = found[0]
        return description


def quality(
    model: Model, *, quick: bool = False, device: str = "auto", data_dir: str | None = None,
    message: Callable[[str], Any] = lambda sentence: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure the vectors without labels, beside vectors that need no training, and give a verdict, as `afgrl quality`
    does. ``quick`` leaves out what needs further training runs, and with it the verdict.

    The panel is saved in a run, with the further training runs; those of an estimator are not kept.
    """
    with as_runs([model]) as (run,):
        return assess_run(run, choose_device(device), quick=quick, data_dir=data_dir, message=message)


def add_nodes(
    run: RunFolder, source: str | Path, *, device: str = "auto", data_dir: str | None = None, alone: bool = False,
    force: bool = False, message: Callable[[str], Any] = lambda sentence: None,
) -> Addition:  # fmt: skip
    """Add the new nodes of a file or folder to a run without training, as `afgrl add` does. ``search``, reports and the
    explorer then answer for them too. ``alone`` embeds them without the training graph; ``force`` replaces an earlier
    addition of that name. The ``name`` of the answer is what ``remove_nodes`` takes."""
    return added_nodes.add_nodes(
        opened(run), str(source), choose_device(device), data_dir=data_dir, alone=alone, force=force, message=message
    )


def remove_nodes(run: RunFolder, name: str) -> None:
    """Remove nodes that were added to a run, by the name of the addition, as `afgrl remove` does."""
    added_nodes.remove_nodes(opened(run), name)
