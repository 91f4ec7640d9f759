"""The scores and the untrained baselines, in the order and under the titles that every results table uses."""

from __future__ import annotations

from typing import NamedTuple


class ScoreColumn(NamedTuple):
    task: str  # the key in scores.json
    name: str  # the key below the task
    title: str  # the column header

    @property
    def digits(self) -> int:
        return 2 if self.name == "accuracy" else 4


COLUMNS = (
    ScoreColumn("classification", "accuracy", "accuracy %"),
    ScoreColumn("clustering", "nmi", "NMI"),
    ScoreColumn("clustering", "homogeneity", "homog."),
    ScoreColumn("clustering", "ari", "ARI"),
    ScoreColumn("similarity", "sim@5", "Sim@5"),
    ScoreColumn("similarity", "sim@10", "Sim@10"),
)

# The clustering readout has a separate table: a seventh score does not fit into the eighty columns of a terminal.
READOUT_COLUMNS = (
    ScoreColumn("clustering-readout", "nmi", "NMI, clustering readout"),
    ScoreColumn("clustering-readout", "homogeneity", "homog."),
    ScoreColumn("clustering-readout", "ari", "ARI"),
)

# Embeddings that need no training: the key in scores.json and the row title.
BASELINES = {
    "random": "untrained",
    "hops": "[X | SX | S²X]",
    "raw": "raw features",
    "svd": "SVD of 3 hops",
    "ppr": "PageRank of SVD",
}


class QualityColumn(NamedTuple):
    name: str  # the key in quality.json
    title: str  # the column header
    digits: int


# Measures without labels, of the trained vectors and of the baselines.
QUALITY_COLUMNS = (
    QualityColumn("link_auc", "link AUC", 3),
    QualityColumn("modularity", "modul.", 3),
    QualityColumn("conductance", "conduct.", 3),
    QualityColumn("cluster_entropy", "entropy", 3),
    QualityColumn("effective_rank", "rank", 0),
    QualityColumn("mean_cosine", "cosine", 2),
    QualityColumn("hubness", "hubness", 1),
)
