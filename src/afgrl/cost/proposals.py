"""Settings that take less time than the given ones, and what they cost in quality."""

from __future__ import annotations

from typing import Any, NamedTuple

from afgrl.cost.batches import batch_seconds, svd_seconds
from afgrl.cost.workload import Workload
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_settings import PositiveSettings


class Change(NamedTuple):
    """A mean change over graphs, in percentage points."""

    what: str  # was compared
    accuracy: float
    similarity: float  # Sim@5
    nmi: float  # of the clustering readout
    n_graphs: int

    def __str__(self) -> str:
        scores = f"accuracy {self.accuracy:+.1f}, Sim@5 {self.similarity:+.1f}, NMI {self.nmi:+.1f} points"
        return f"{scores} ({self.what}, mean of {self.n_graphs} graphs)"


# By the input of the encoder: svd on Photo, Computers and Debian; own on CS, Physics, ACM, BlogCatalog and UAI2010;
# features on Cora, CiteSeer, PubMed and WordNet. Half the steps: results/default-rule.json, one seed; another seed
# changes the accuracy of a graph by about .15 points. No training: results/default.json, three seeds.
HALF_THE_STEPS = {
    "svd": Change("half the steps", -0.32, -0.18, -2.16, 3),
    "own": Change("half the steps", -0.42, -1.17, -2.33, 5),
    "features": Change("half the steps", -0.07, -0.46, -0.61, 4),
}
UNTRAINED = {
    "svd": Change("no training", -1.79, -2.11, -5.16, 3),
    "own": Change("no training", -1.40, -4.65, -10.55, 5),
    "features": Change("no training", -2.45, -3.59, -0.94, 4),
}


def faster(settings: PositiveSettings, load: Workload, rates: dict[str, float]) -> list[dict[str, Any]]:
    """Proposals for training in batches, each with its settings, estimated seconds and measured change of quality."""
    if not isinstance(settings, NodeEmbedderSettings):
        return []
    untrained = {
        "method": "svd", "settings": {}, "seconds": svd_seconds(settings.n_components, load, rates),
        "quality": str(UNTRAINED[settings.input]),
    }  # fmt: skip
    if settings.steps < 2:
        return [untrained]
    half = {"steps": settings.steps // 2}
    shorter = {
        "method": "node_embedder", "settings": half, "seconds": _seconds(settings, half, load, rates),
        "quality": str(HALF_THE_STEPS[settings.input]),
    }  # fmt: skip
    return [shorter, untrained]


def _seconds(settings: NodeEmbedderSettings, changes: dict[str, Any], load: Workload, rates: dict[str, float]) -> float:
    changed = settings.model_copy(update=changes)
    return batch_seconds(changed, load, rates).total(changed)
