"""(embedding, labels, splits) → scores; independent of how the embedding was computed."""

from afgrl.evaluate.classification import adam_probe, logistic_probe
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.protocols import (
    BEST_EPOCH,
    LAST_EPOCH,
    evaluate_epoch,
    evaluate_last_epoch,
    evaluate_predictions,
    scores_to_json,
    select_best_epochs,
    select_labeled,
)
from afgrl.evaluate.readout import SmoothedFeatures, clustering_readout, smoothed_directions, smoothed_features
from afgrl.evaluate.sample import Sample, draw_sample
from afgrl.evaluate.score import Score
from afgrl.evaluate.similarity import similarity_scores

__all__ = [
    "BEST_EPOCH",
    "LAST_EPOCH",
    "Sample",
    "Score",
    "SmoothedFeatures",
    "adam_probe",
    "cluster_scores",
    "clustering_readout",
    "draw_sample",
    "evaluate_epoch",
    "evaluate_last_epoch",
    "evaluate_predictions",
    "logistic_probe",
    "scores_to_json",
    "select_best_epochs",
    "select_labeled",
    "similarity_scores",
    "smoothed_directions",
    "smoothed_features",
]
