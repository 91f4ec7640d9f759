"""One verdict in words: better than, equal to or worse than the vectors that need no training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TRAINED = "trained"  # the vectors of the run, beside the names of baselines
BASELINES = ("raw", "hops", "svd", "ppr")  # what needs no training; the untrained encoder is shown beside them
Measures = dict[str, dict[str, Any]]  # TRAINED and baselines → measure → value


@dataclass(frozen=True)
class Criterion:
    measure: str
    title: str
    margin: float  # a smaller difference counts as equal
    sign: int = 1  # -1: lower is better


# Measures that compare two kinds of vectors; the sign is what is commonly taken as good.
CRITERIA = (
    Criterion("link_auc", "link prediction AUC", 0.01),
    Criterion("modularity", "modularity", 0.01),
    Criterion("conductance", "conductance", 0.01, -1),
    Criterion("effective_rank", "effective rank", 5.0),
    Criterion("hubness", "hubness", 0.1, -1),
)
# The same with labels, by which benchmarks/verdict.py measures the verdict.
LABEL_CRITERIA = (
    Criterion("accuracy", "accuracy", 0.5),
    Criterion("nmi", "NMI", 0.01),
    Criterion("sim@5", "Sim@5", 0.005),
)
RULE = ("link_auc",)  # the measures that decide
# What benchmarks/verdict.py measured; a test compares it with results/verdict.json.
AGREEMENT: dict[str, Any] = {
    "runs": 30,
    "graphs": 10,
    "agreed": 20,
    "opposite": 4,
    "most_common_truth": 16,
    "leave_one_graph_out": 20,
    "default": {"runs": 10, "agreed": 4, "opposite": 4, "most_common_truth": 8},  # AFGRL's default settings alone
}
NO_VERDICT = "No verdict: it needs link prediction, which --quick and graphs with few edges leave out."
WORDS = {1: "better than", 0: "equal to", -1: "worse than"}


def reliability(measured: dict[str, Any]) -> str:
    """How far the verdict can be trusted: how often it agreed with labels, and whether a constant answer would have.

    The rule was chosen with labels of the same graphs, so what counts is the agreement on graphs that did not choose,
    and that on the settings that most users have.
    """
    constant, honest, default = (measured[name] for name in ("most_common_truth", "leave_one_graph_out", "default"))
    is_better = honest > constant and default["agreed"] > default["most_common_truth"]
    advice = "so it is a hint, not a proof" if is_better else "so do not rely on it alone"
    return (
        f"This verdict uses no labels. On {measured['graphs']} labeled graphs it agreed with them in "
        f"{measured['agreed']} of {measured['runs']} runs ({honest} if each graph's measures are chosen on the others) "
        f"and gave the opposite answer in {measured['opposite']}; one constant answer agreed in {constant}. With "
        f"AFGRL's default settings alone it agreed in {default['agreed']} of {default['runs']} and a constant answer "
        f"in {default['most_common_truth']}, {advice}."
    )


RELIABILITY = reliability(AGREEMENT)


def verdict_on(vectors: Measures) -> dict[str, Any]:
    """The verdict on the trained vectors; no word if a measure is missing because nothing was trained for it."""
    votes = {}
    for criterion in (one for one in CRITERIA if one.measure in RULE):
        vote = vote_of(vectors, criterion)
        if vote is None:
            return {"word": None, "measures": {}, "sentence": NO_VERDICT}
        votes[criterion.measure] = vote
    word = WORDS[majority(vote["vote"] for vote in votes.values())]
    return {"word": word, "measures": votes, "sentence": _sentence(word, votes)}


def vote_of(vectors: Measures, criterion: Criterion) -> dict[str, Any] | None:
    """The trained vectors against the best training-free ones in one measure; the vote is 1, 0 or -1."""
    values: dict[str, Any] = {
        name: vectors[name][criterion.measure]
        for name in (TRAINED, *BASELINES)
        if vectors.get(name, {}).get(criterion.measure) is not None
    }
    if TRAINED not in values or len(values) < 2:
        return None
    own = values.pop(TRAINED)
    best = max(values, key=lambda name: criterion.sign * values[name])
    gain = criterion.sign * (own - values[best])
    vote = (gain > criterion.margin) - (gain < -criterion.margin)
    return {"trained": own, "best": values[best], "baseline": best, "vote": vote}


def majority(votes: Iterable[int]) -> int:
    """1 if more votes are 1 than -1, -1 if fewer, otherwise 0."""
    total = sum(votes)
    return (total > 0) - (total < 0)


def _sentence(word: str, votes: Measures) -> str:
    titles = {criterion.measure: criterion.title for criterion in CRITERIA}
    compared = [
        f"{titles[name]} {vote['trained']:.3f} against {vote['best']:.3f} of {vote['baseline']}"
        for name, vote in votes.items()
    ]
    return f"Verdict: {word} the best vectors without training, by {' and '.join(compared)}. {RELIABILITY}"
