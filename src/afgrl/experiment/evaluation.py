"""The scores of a run beside those of untrained baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import afgrl
from afgrl.cost.storage import folder_after_training
from afgrl.data import Dataset
from afgrl.data.splits import Splits
from afgrl.errors import UserError
from afgrl.evaluate import (
    SmoothedFeatures,
    clustering_readout,
    draw_sample,
    evaluate_last_epoch,
    evaluate_predictions,
    scores_to_json,
    select_best_epochs,
    select_labeled,
    smoothed_directions,
    smoothed_features,
)
from afgrl.evaluate.matrix import select_rows
from afgrl.experiment.model import complete_settings
from afgrl.experiment.periodic import first_splits
from afgrl.experiment.untrained import readable_features, untrained_embeddings
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.storage import tables_in_files
from afgrl.runs.folder import EVALUATIONS, FORMAT, Run
from afgrl.runs.lock import writes_run

TRAINED = "trained"  # the vectors of the run, beside the names of baselines
Json = dict[str, Any]


@writes_run
def evaluate_run(
    run: Run, device: torch.device, *, data_dir: str | None = None, baselines: bool = True,
    message: Callable[[str], None] = lambda sentence: None,
) -> Json:  # fmt: skip
    """The scores of a run, in both protocols where it has periodic evaluations; saved as scores.json.

    After an interruption, the next call continues with the embeddings that were not scored yet.
    """
    spec, settings = run.spec(), complete_settings(run)
    y, stored_splits = run.labels()
    if y is None or stored_splits is None:
        raise UserError(f"The run {str(run.path)!r} has no labels, so it cannot be evaluated.")
    splits = first_splits(stored_splits, spec.evaluation)
    sample = draw_sample(select_labeled(y, splits)[2], spec.evaluation.n_fits)
    if sample is not None:
        message(str(sample))
    dataset, width = run.dataset(data_dir), run.embedding_shape[1]
    with tables_in_files(folder_after_training(dataset.graph, width, device)):
        every = _scores_of_each(run, dataset, y, splits, device, baselines, message)
    scores: Json = {
        "dataset": run.data()["name"],
        "method": spec.method,
        "recipe": spec.recipe,
        "seed": settings.seed,
        "splits": splits.name if sample is None else sample.splits.name,
        "sampled": None if sample is None else str(sample),
        "last-epoch": every.pop(TRAINED),
        "best-epoch": None,
        "baselines": every,
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
    run.save_scores(scores)
    return scores


def _scores_of_each(
    run: Run, dataset: Dataset, y: np.ndarray, splits: Splits, device: torch.device, baselines: bool,
    message: Callable[[str], None],
) -> Json:  # fmt: skip
    """The scores of the trained vectors and of each baseline. One embedding is in memory at a time, and the scores of
    each are saved, so that an interrupted evaluation continues."""
    spec = run.spec()
    key = [run.vectors_fingerprint(), device.type, spec.evaluation.n_fits, FORMAT, afgrl.__version__]
    found = run.partial_scores(key)
    if found:
        message(f"Scored before the interruption: {', '.join(found)}.")
    adjacency = gcn_norm(dataset.graph.to(device))
    features = smoothed_features(readable_features(dataset.graph, device), adjacency)

    def score(name: str, embedding: Tensor) -> None:
        message(f"Scoring the vectors: {name}.")
        found[name] = last_epoch_scores(embedding.to(device), features, adjacency, y, splits, spec.evaluation.n_fits)
        if baselines:
            run.save_partial_scores(key, found)

    if TRAINED not in found:
        score(TRAINED, torch.from_numpy(run.embedding()[1]))
    if not baselines:
        return {TRAINED: found[TRAINED]}
    for name, embedding in untrained_embeddings(spec, dataset, device, message, skip=found):
        score(name, embedding)
        del embedding  # before the next one is computed
    return found


def last_epoch_scores(
    embedding: Tensor, features: Tensor | SmoothedFeatures, adjacency: Tensor, y: np.ndarray, splits: Splits,
    n_fits: int,
) -> Json:  # fmt: skip
    """The scores of one embedding of all nodes in the last-epoch protocol; a label of -1 means none.

    Of more than 150,000 labeled nodes, a sample is scored. The features and the normalized adjacency of the nodes are
    for the clustering readout.
    """
    rows, labels, splits = select_labeled(y, splits)
    # The readout averages over all nodes; only then are those without labels dropped.
    directions = smoothed_directions(embedding, features, adjacency)
    readout = select_rows(clustering_readout(directions, adjacency, int(labels.max()) + 1), rows)
    scores = evaluate_last_epoch(
        select_rows(embedding, rows), labels, splits, n_fits=n_fits, readout=readout, sample=draw_sample(splits, n_fits)
    )
    return scores_to_json(scores)
