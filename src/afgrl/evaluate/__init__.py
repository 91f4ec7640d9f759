"""(embedding, labels, splits) → scores. Nothing here knows how the vectors were made."""

from afgrl.evaluate.classification import adam_probe, logistic_probe
from afgrl.evaluate.clustering import cluster_scores
from afgrl.evaluate.protocols import as_json, label_free, labeled, pick, predicted, snapshot
from afgrl.evaluate.score import Score
from afgrl.evaluate.similarity import similarity_scores

__all__ = [
    "Score",
    "adam_probe",
    "as_json",
    "cluster_scores",
    "label_free",
    "labeled",
    "logistic_probe",
    "pick",
    "predicted",
    "similarity_scores",
    "snapshot",
]
