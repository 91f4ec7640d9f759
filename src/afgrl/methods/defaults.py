"""How the default embedding follows the graph: conditions → settings, each with its reason.

Rules apply in order, and a later one overrides an earlier one. docs/default.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from afgrl.graph import Graph
from afgrl.methods.parts.positive_settings import LARGE
from afgrl.methods.parts.spectral import HUGE, RANK

# Density below which features count as sparse. Bags of words have 0.4 to 14 % non-zeros in the benchmark graphs,
# co-purchase reviews 35 %, pixels and word vectors more.
SPARSE_FEATURES = 0.2
# Mean degree below which nodes have few neighbors. Citation graphs have 2.7 to 4.5 edges per node, co-author graphs 9
# to 14.
FEW_NEIGHBORS = 6
# Nodes above which a CPU searches in clusters between batches: on CS (18,333 nodes) an exact search takes as long as a
# hundred steps.
EXACT_IN_BATCHES = 10_000
FEWEST_STEPS = 30  # of small graphs


@dataclass(frozen=True)
class Facts:
    """What the rules know about a graph."""

    n: int
    n_features: int
    density: float
    mean_degree: float

    @classmethod
    def of(cls, graph: Graph) -> Facts:
        return cls(graph.n, graph.n_features, graph.density, graph.mean_degree)

    @property
    def dense(self) -> bool:
        return self.density >= SPARSE_FEATURES

    @property
    def many_neighbors(self) -> bool:
        return self.mean_degree >= FEW_NEIGHBORS

    @property
    def large(self) -> bool:
        return self.n > LARGE

    @property
    def huge(self) -> bool:
        return self.n > HUGE


@dataclass(frozen=True)
class Rule:
    condition: str
    holds: Callable[[Facts], bool]
    settings: Mapping[str, Any]  # and ``nodes_per_step``, of small graphs, and ``encoder_share`` of n_components
    reason: str


RULES = (
    Rule(
        "any graph", lambda graph: True,
        {"n_components": 512, "skip": "svd+ppr", "dropout": 0.7, "n_neighbors": 12, "n_hops": 1, "encoder_share": 1},
        "vectors without training keep what training loses; strong dropout adds .4 points of accuracy",
    ),
    Rule(
        "dense features", lambda graph: graph.dense,
        {"input": "svd", "dropout": 0.25, "n_neighbors": 4, "steps": 700, "nodes_per_step": 4, "refresh_every": 50},
        "Adam is not rotation invariant: principal directions as input add 4 points on Computers",
    ),
    Rule(
        "sparse features, many neighbors", lambda graph: not graph.dense and graph.many_neighbors,
        {"input": "own", "skip": "svd", "steps": 600, "nodes_per_step": 4, "refresh_every": 100},
        "a node is predicted from its words alone; its neighbors are positives, and ppr would add little",
    ),
    Rule(
        "sparse features, few neighbors", lambda graph: not graph.dense and not graph.many_neighbors,
        {"input": "features", "n_hops": 2, "steps": 300, "nodes_per_step": 16, "refresh_every": 20},
        "a second hop helps, and training for long loses",
    ),
    Rule(
        "the same, more than 10,000 nodes",
        lambda graph: not graph.dense and not graph.many_neighbors and graph.n > EXACT_IN_BATCHES,
        {"refresh_every": 50}, "a refresh takes longer than 20 steps",
    ),
    Rule(
        "sparse features, large", lambda graph: not graph.dense and graph.large,
        {"skip": "svd+ppr", "steps": 400, "nodes_per_step": 16}, "measured on WordNet and Debian",
    ),
    Rule(
        "large", lambda graph: graph.large, {"n_components": 1024, "refresh_every": 100},
        "there is more to tell apart, and a refresh takes longer",
    ),
    Rule(
        "sparse features, many neighbors, large",
        lambda graph: not graph.dense and graph.many_neighbors and graph.large,
        {"input": "svd", "refresh_every": 200, "encoder_share": 1 / 2},
        "SX has too many entries, and vectors without training fill the other columns",
    ),
    Rule(
        "dense features, not large", lambda graph: graph.dense and not graph.large, {"encoder_share": 2},
        "a wider encoder adds .1 to .3 points",
    ),
    Rule(
        "huge", lambda graph: graph.huge,
        {"n_components": 128, "steps": 400, "refresh_every": 200, "encoder_share": 1},
        "a million nodes fit 8 GiB, and a refresh takes longer than all steps",
    ),
)  # fmt: skip


def defaults_for(facts: Facts, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that follow from the rules; ``given`` holds the parsed values of those that were set."""
    values: dict[str, Any] = {}
    for rule in RULES:
        if rule.holds(facts):
            values |= rule.settings
    per_step, share = values.pop("nodes_per_step"), values.pop("encoder_share")
    values["steps"] = min(values["steps"], max(FEWEST_STEPS, round(facts.n / per_step)))
    values["neighbor_weight"] = 1.0 if given.get("input", values["input"]) == "own" else 0.0
    width = given.get("n_components", values["n_components"])
    fills = share >= 1 or width <= 2 * min(facts.n_features, RANK)  # otherwise there are fewer untrained columns
    alone = given.get("skip") == "none"  # the encoder's output is the embedding
    values["encoder_width"] = width if alone or not fills else max(1, int(share * width))
    values["predictor_width"] = given.get("encoder_width", values["encoder_width"])
    return values
