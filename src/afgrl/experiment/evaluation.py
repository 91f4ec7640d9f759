"""The scores of a run beside those of untrained baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl.config import Settings, resolve
from afgrl.cost.machine import free_memory
from afgrl.cost.workload import Workload
from afgrl.data import Dataset
from afgrl.data.splits import Splits
from afgrl.errors import UserError
from afgrl.evaluate import (
    clustering_readout,
    evaluate_last_epoch,
    evaluate_predictions,
    sample_labeled,
    scores_to_json,
    select_best_epochs,
    select_labeled,
    smoothed_directions,
)
from afgrl.evaluate.matrix import select_rows
from afgrl.experiment.model import complete_settings
from afgrl.experiment.periodic import first_splits
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops.propagation import multi_hop_features
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.runs.folder import EVALUATIONS, Run
from afgrl.runs.spec import RunSpec
from afgrl.train.state import initial_state

N_HOPS = 2  # of the baseline hops
HOPS_SHARE = 0.25  # of the free memory: the table, its scaled blocks and their concatenation are in memory together
SVD_COMPONENTS = 512  # the most for the baselines svd and ppr: the default of both methods


def evaluate_run(
    run: Run, device: torch.device, *, data_dir: str | None = None, baselines: bool = True,
    message: Callable[[str], None] = lambda sentence: None,
) -> dict[str, Any]:  # fmt: skip
    """The scores of a run, in both protocols where it has periodic evaluations; saved as scores.json."""
    spec, settings = run.spec(), complete_settings(run)
    y, stored_splits = run.labels()
    if y is None or stored_splits is None:
        raise UserError(f"The run {str(run.path)!r} has no labels, so it cannot be evaluated.")
    splits = first_splits(stored_splits, spec.evaluation)
    dataset = run.dataset(data_dir)
    features, adjacency = readable_features(dataset.graph, device), gcn_norm(dataset.graph.to(device))

    def last_epoch(embedding: Tensor) -> dict[str, Any]:
        return last_epoch_scores(embedding.to(device), features, adjacency, y, splits, spec.evaluation.n_fits)

    scores: dict[str, Any] = {
        "dataset": run.data()["name"],
        "method": spec.method,
        "recipe": spec.recipe,
        "seed": settings.seed,
        "splits": splits.name,
        "last-epoch": last_epoch(torch.from_numpy(run.embedding()[1])),
        "best-epoch": None,
        "baselines": {},
    }
    evaluations = run.lines(EVALUATIONS)
    if evaluations:
        with run.reading(EVALUATIONS):
            scores["best-epoch"] = scores_to_json(select_best_epochs(evaluations))
    predictions = run.predictions()
    if predictions is not None:  # a supervised method has its own classifier
        rows, labels, own_splits = select_labeled(y, splits)
        own = scores_to_json(evaluate_predictions(predictions[: len(splits), rows], labels, own_splits))
        for protocol in ("last-epoch", "best-epoch"):
            if scores[protocol]:
                scores[protocol]["classification"] = own["classification"]
    if baselines:
        untrained = untrained_embeddings(spec, dataset, device, message)
        scores["baselines"] = {name: last_epoch(embedding) for name, embedding in untrained}
    run.save_scores(scores)
    return scores


def last_epoch_scores(
    embedding: Tensor, features: Tensor, adjacency: Tensor, y: np.ndarray, splits: Splits, n_fits: int
) -> dict[str, Any]:
    """The scores of one embedding of all nodes in the last-epoch protocol; a label of -1 means none.

    Of more than 150,000 labeled nodes, a sample is scored. The features and the normalized adjacency of the nodes are
    for the clustering readout.
    """
    rows, labels, splits = sample_labeled(*select_labeled(y, splits))
    # The readout averages over all nodes; only then are those without labels dropped.
    directions = smoothed_directions(embedding, features, adjacency)
    readout = clustering_readout(directions, adjacency, int(labels.max()) + 1)
    nodes = "all nodes" if len(rows) == np.count_nonzero(y >= 0) else f"{len(rows):,} random nodes"
    own, own_readout = select_rows(embedding, rows), select_rows(readout, rows)
    return scores_to_json(evaluate_last_epoch(own, labels, splits, n_fits=n_fits, readout=own_readout, nodes=nodes))


def untrained_embeddings(
    spec: RunSpec, dataset: Dataset, device: torch.device, message: Callable[[str], None] = lambda sentence: None
) -> Iterator[tuple[str, Tensor]]:
    """What needs no training, one after the other, since all of them would take several times the memory: the method
    before its first step, multi-hop features, the features themselves, and the vectors of the methods svd and ppr,
    which are at most as wide as the run's own."""
    settings = resolve(method_class(spec.method).settings_class, spec.settings)
    yield "random", _embedded(spec.method, settings, dataset.graph, device)
    needed, free = _hops_memory(dataset.graph, device), free_memory(device.type)
    if needed <= HOPS_SHARE * free:
        yield "hops", multi_hop_features(dataset.graph.to(device), N_HOPS)
    else:
        message(
            f"The baseline hops is left out: its features take {needed / 2**30:.1f} GiB, more than a quarter of the "
            f"{free / 2**30:.1f} GiB that are free."
        )
    yield "raw", readable_features(dataset.graph, device)
    yield from _spectral_embeddings(spec, dataset, device)


def _embedded(method: str, settings: Settings, graph: Graph, device: torch.device) -> Tensor:
    state, inputs = initial_state(method, settings, graph, device)
    return state.method.embed(inputs)


def readable_features(graph: Graph, device: torch.device) -> Tensor:
    """The features as evaluation reads them: dense on a GPU, since CSR is evaluated on a CPU only."""
    return graph.x.to(device).to_dense() if device.type == "cuda" else graph.x


def _hops_memory(graph: Graph, device: torch.device) -> int:
    """Bytes of ``[X | SX | S²X]``; sparse entries have an int64 column."""
    load = Workload.of(graph, device.type)
    dense = 4 * graph.n * graph.n_features * (N_HOPS + 1)
    return min(dense, 12 * sum(load.hop_nnz)) if load.hop_nnz else dense


def _spectral_embeddings(spec: RunSpec, dataset: Dataset, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """The vectors of svd, computed once, and their average, which is what the method ppr computes."""
    width = min(spec.settings.get("n_components", SVD_COMPONENTS), SVD_COMPONENTS)
    settings = resolve(method_class("svd").settings_class, {"n_components": width}, graph=dataset.graph)
    state, inputs = initial_state("svd", settings, dataset.graph, device)
    vectors = state.method.embed(inputs)
    yield "svd", vectors
    yield "ppr", pagerank_average(vectors, inputs.adjacency)
