"""Settings that take less time than the given ones, and what they cost in quality."""

from __future__ import annotations

from typing import Any, NamedTuple

from afgrl.cost.batches import batch_seconds, svd_seconds
from afgrl.cost.workload import Workload
from afgrl.methods.afgrl import AFGRLSettings


class Change(NamedTuple):
    """A mean change over graphs, in percentage points."""

    what: str  # was compared
    accuracy: float
    similarity: float  # Sim@5
    n_graphs: int

    def __str__(self) -> str:
        scores = f"accuracy {self.accuracy:+.2f}, Sim@5 {self.similarity:+.2f} points"
        return f"{scores} ({self.what}, mean of {self.n_graphs} graphs, earlier default settings)"


# From session 3 of results/default-exploration.json, which is an earlier state of the default settings.
# Each graph was trained once with each setting, on one H200; accuracy is that of a ridge classifier. Another seed
# changes a graph's accuracy by .16 and its Sim@5 by .28 points (standard deviation over ten graphs), so a mean over ten
# graphs is uncertain by .05 and .09, one over two graphs by .11 and .20. Sparse features: ACM, BlogCatalog, CiteSeer,
# Cora, CS, Debian, Physics, PubMed, UAI2010 and WordNet, with n_hops=1, dropout=.6 and skip=svd+ppr. Dense features:
# Computers and Photo, with dropout=.5 and skip=svd+ppr.
STEPS = {
    "features": Change("150 instead of 300 steps", -0.09, -0.48, 10),
    "svd": Change("500 instead of 800 steps", -0.35, 0.03, 2),
}
STEPS_SHARE = {"features": 1 / 2, "svd": 5 / 8}  # of these comparisons
UNTRAINED = {
    "features": Change("svd instead of the trained vectors", -0.77, -1.77, 10),
    "svd": Change("svd instead of the trained vectors", -2.24, -1.50, 2),
}
NARROW = Change("encoder_width 512 instead of 1,024", -0.17, 0.15, 2)


def faster(settings: AFGRLSettings, load: Workload, rates: dict[str, float]) -> list[dict[str, Any]]:
    """Proposals for training in batches, each with its settings, estimated seconds and measured change of quality."""
    if not settings.in_batches:
        return []
    kind = "svd" if settings.input == "svd" else "features"
    proposals: list[tuple[dict[str, Any], Change]] = []
    if settings.steps > 1:
        proposals.append(({"steps": max(1, round(settings.steps * STEPS_SHARE[kind]))}, STEPS[kind]))
    narrow = settings.encoder_width // 2
    if kind == "svd" and settings.skip != "none" and narrow >= settings.n_components:
        proposals.append(({"encoder_width": narrow, "predictor_width": narrow}, NARROW))
    answers = [
        {
            "method": "afgrl",
            "settings": changes,
            "seconds": _seconds(settings, changes, load, rates),
            "quality": str(cost),
        }
        for changes, cost in proposals
    ]  # fmt: skip
    untrained = {
        "method": "svd", "settings": {}, "seconds": svd_seconds(settings.n_components, load, rates),
        "quality": str(UNTRAINED[kind]),
    }  # fmt: skip
    return [*answers, untrained]


def _seconds(settings: AFGRLSettings, changes: dict[str, Any], load: Workload, rates: dict[str, float]) -> float:
    changed = settings.model_copy(update=changes)
    return batch_seconds(changed, load, rates).total(changed)
