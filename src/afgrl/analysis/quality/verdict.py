"""One verdict in words: better or worse than the vectors that need no training, or undecided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from afgrl.evaluate.columns import BASELINES

TRAINED = "trained"  # the vectors of the run, beside the names of baselines
COMPARED = ("raw", "hops", "svd", "ppr")  # what needs no training; the untrained encoder is shown beside them
Measures = dict[str, dict[str, Any]]  # TRAINED and baselines → measure → value


@dataclass(frozen=True)
class Criterion:
    measure: str
    title: str
    margin: float  # a smaller difference counts as equal
    sign: int = 1  # -1: lower is better


# Measures that compare two kinds of vectors; the sign is what is commonly taken as good.
CRITERIA = (
    Criterion("link_auc", "link prediction AUC", 0.01),  # and twice its standard error
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
N_ERRORS = 2.0  # standard errors by which a difference must exceed 0, if they are known
COLLAPSED_RANK, COLLAPSED_COSINE = 1.5, 0.99  # an effective rank below, or a cosine to the mean above: one direction
# What benchmarks/verdict.py measured; a test compares it with results/verdict.json.
AGREEMENT: dict[str, Any] = {
    "graphs": 9,
    "runs": 48,
    "decided": 21,
    "agreed": 19,
    "leave_one_setting_out": {"decided": 23, "agreed": 16},
    # AFGRL's default settings alone. better: labels call them better; lower: the link AUC is lower, and in how many of
    # these runs labels call them worse
    "default": {"runs": 9, "decided": 2, "agreed": 2, "better": 8, "lower": 4, "lower_and_worse": 0},
}
NO_VERDICT = "No verdict: it needs link prediction, which --quick and graphs with too few edges leave out."
UNTRAINED = "No verdict: the method of this run does not train."
WORDS = {1: "better than", 0: "equal to", -1: "worse than"}
UNDECIDED = "undecided"


def reliability(measured: dict[str, Any]) -> str:
    """How far the verdict can be trusted: how often labels agreed with it. The rule was chosen with the same labels, so
    the figures of a rule that was chosen on other settings are beside them; then the settings that most users have."""
    default, honest = measured["default"], measured["leave_one_setting_out"]
    return (
        f"Do not rely on it alone. On {measured['graphs']} graphs with labels and {measured['runs']} runs, good and "
        f"bad ones, a verdict was given for {measured['decided']}, and labels agreed with {measured['agreed']} of "
        f"these ({honest['agreed']} of {honest['decided']} if the rule is chosen on other settings than those it is "
        f"tested on). For AFGRL's default settings, it was given for {default['decided']} of {default['runs']} runs "
        f"and labels agreed with {default['agreed']}; by labels, {default['better']} of all {default['runs']} are "
        "better than the best vectors without training."
    )


RELIABILITY = reliability(AGREEMENT)


def verdict_on(vectors: Measures, *, keeps_untrained: bool, trains: bool = True) -> dict[str, Any]:
    """The verdict on the trained vectors; no word if a measure is missing because nothing was trained for it, or if the
    method does not train. ``keeps_untrained``: the trained vectors contain vectors without training."""
    if not trains:
        return {"word": None, "measures": {}, "sentence": UNTRAINED}
    votes = {}
    for criterion in (one for one in CRITERIA if one.measure in RULE):
        vote = vote_of(vectors, criterion)
        if vote is None:
            return {"word": None, "measures": {}, "sentence": NO_VERDICT}
        votes[criterion.measure] = vote
    total, own = majority(vote["vote"] for vote in votes.values()), vectors[TRAINED]
    answer = decide(total, keeps_untrained=keeps_untrained, collapsed=is_collapsed(own))
    word = UNDECIDED if answer is None else WORDS[answer]
    text = _collapse(own) if is_collapsed(own) else _comparison(total, answer, votes)
    return {"word": word, "measures": votes, "sentence": f"Verdict: {text}. {RELIABILITY}"}


def decide(vote: int, *, keeps_untrained: bool, collapsed: bool) -> int | None:
    """1 for better, -1 for worse, None for undecided: answers that labels seldom confirmed are not given
    (docs/quality.md).

    A difference within the margin does not say that vectors are equally good. Vectors that contain the training-free
    ones are not called worse: a classifier can use these, whatever the cosine of the whole says. Of collapsed vectors,
    rounding errors decide which cosine is higher.
    """
    return None if vote == 0 or collapsed or (vote == -1 and keeps_untrained) else vote


def is_collapsed(measures: dict[str, Any]) -> bool:
    """Whether nearly all vectors have the same direction."""
    return bool(measures["effective_rank"] < COLLAPSED_RANK or measures["mean_cosine"] > COLLAPSED_COSINE)


def vote_of(vectors: Measures, criterion: Criterion) -> dict[str, Any] | None:
    """The trained vectors against the best training-free ones in one measure; the vote is 1, 0 or -1.

    ``vectors`` may have the standard error of each difference from the trained vectors, as MEASURE_error.
    """
    values: dict[str, Any] = {
        name: vectors[name][criterion.measure]
        for name in (TRAINED, *COMPARED)
        if vectors.get(name, {}).get(criterion.measure) is not None
    }
    if TRAINED not in values or len(values) < 2:
        return None
    own = values.pop(TRAINED)
    best = max(values, key=lambda name: criterion.sign * values[name])
    gain = criterion.sign * (own - values[best])
    least = max(criterion.margin, N_ERRORS * (vectors[best].get(f"{criterion.measure}_error") or 0))
    return {
        "trained": own, "best": values[best], "baseline": best, "least": least, "vote": (gain > least) - (gain < -least)
    }  # fmt: skip


def majority(votes: Iterable[int]) -> int:
    """1 if more votes are 1 than -1, -1 if fewer, otherwise 0."""
    total = sum(votes)
    return (total > 0) - (total < 0)


def _collapse(measures: dict[str, Any]) -> str:
    return (
        f"{UNDECIDED}. The vectors have collapsed: nearly all have the same direction (effective rank "
        f"{measures['effective_rank']:.1f}, cosine to the mean {measures['mean_cosine']:.2f}), so they hardly tell "
        "nodes apart"
    )


def _comparison(total: int, answer: int | None, votes: Measures) -> str:
    titles, default = {criterion.measure: criterion.title for criterion in CRITERIA}, AGREEMENT["default"]
    compared = " and ".join(
        f"{titles[name]} ({vote['trained']:.3f} against {vote['best']:.3f} of {BASELINES[vote['baseline']]}; up "
        f"to {vote['least']:.3f} does not count)"
        for name, vote in votes.items()
    )
    if answer is not None:
        return f"{WORDS[answer]} the best vectors without training, by {compared}"
    if total == 0:
        return f"{UNDECIDED}. The best vectors without training have about the same {compared}"
    return (
        f"{UNDECIDED}. The best vectors without training have a higher {compared}, but these vectors contain such "
        f"vectors: of {default['lower']} runs of AFGRL's default settings of which this was true, labels called "
        f"{default['lower_and_worse']} worse"
    )
