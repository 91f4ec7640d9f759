"""Probe accuracy from the few labels that a user may have, with its uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from afgrl.amounts import number
from afgrl.csr import csr_to_scipy
from afgrl.evaluate.columns import BASELINES
from afgrl.evaluate.matrix import is_sparse
from afgrl.ops.sparse.rows import unit_rows

N_FOLDS = 5
MAX_LABELED = 1_000  # labels that are used; `afgrl evaluate` is made for more
STRENGTH = 16.0  # C of the logistic regression on unit rows; one value, since few labels cannot choose it
CONFIDENCE, SIGNIFICANT = 0.95, 0.05
SEED = 0


def probed_nodes(y: np.ndarray | None) -> np.ndarray:
    """The row numbers of the labeled nodes that are classified, at most 1,000; -1 in ``y`` [n] means no label."""
    if y is None:
        return np.empty(0, dtype=np.int64)
    labeled = np.flatnonzero(y >= 0)
    used = labeled[np.bincount(y[labeled])[y[labeled]] > 1]  # a class of one node cannot be both learned and tested
    if len(used) > MAX_LABELED:
        used = np.sort(np.random.default_rng(SEED).choice(used, MAX_LABELED, replace=False))
        used = used[np.bincount(y[used])[y[used]] > 1]
    return used


def probe_few_labels(every: dict[str, Tensor], y: np.ndarray | None) -> dict[str, Any] | None:
    """The accuracy of a logistic regression for each kind of vectors, of ``probed_nodes(y)``; None without labels.

    Each labeled node is classified once, by the fold of a stratified cross-validation that does not contain it. The
    interval is Wilson's (1927) for that many nodes, 95 %. Whether the labels suffice to rank the first kind of vectors
    against the best other one is McNemar's exact test on the nodes that only one of them classifies correctly.
    """
    if y is None or not (y >= 0).any():
        return None
    classes = y[probed_nodes(y)]
    n_classes = len(np.unique(classes))
    answer = {"labeled": int((y >= 0).sum()), "used": len(classes), "classes": n_classes}
    if n_classes < 2:
        return answer | {"sentence": "Too few labels for a probe: it needs two classes with two labeled nodes each."}
    correct = {name: _correct(vectors, classes) for name, vectors in every.items()}
    return answer | {"accuracy": {name: _interval(hits) for name, hits in correct.items()}} | _ranking(correct)


def _correct(vectors: Tensor, y: np.ndarray) -> np.ndarray:
    """Whether each node is classified correctly by the classifier that has not seen its label: [n] bool."""
    unit = unit_rows(vectors)
    x: Any = csr_to_scipy(unit) if is_sparse(unit) else unit.cpu().numpy()
    folds = StratifiedKFold(min(N_FOLDS, int(np.bincount(y)[y].min())), shuffle=True, random_state=SEED)
    hits = np.zeros(len(y), dtype=bool)
    for train, test in folds.split(np.zeros(len(y)), y):
        classifier = LogisticRegression(C=STRENGTH, max_iter=2_000).fit(x[train], y[train])
        hits[test] = classifier.predict(x[test]) == y[test]
    return hits


def _interval(hits: np.ndarray) -> dict[str, float]:
    """Accuracy and its interval, in percent."""
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(CONFIDENCE, method="wilson")
    parts = {"mean": hits.mean(), "low": interval.low, "high": interval.high}
    return {name: 100 * float(value) for name, value in parts.items()}


def _ranking(correct: dict[str, np.ndarray]) -> dict[str, Any]:
    """Whether the first kind of vectors can be ranked against the best of the others."""
    first, *others = correct
    best = max(others, key=lambda name: correct[name].sum())
    only_first, only_best = (
        int((correct[one] & ~correct[other]).sum()) for one, other in ((first, best), (best, first))
    )
    different = only_first + only_best
    p_value = float(binomtest(only_first, different).pvalue) if different else 1.0
    ranked = p_value < SIGNIFICANT
    title = f"the best others ({BASELINES.get(best, best)})"
    order = "higher than" if only_first > only_best else "lower than"
    n_labels, test = f"{len(correct[first]):,} labels", f"(McNemar's test, p = {number(p_value, 2)})"
    sentence = (
        f"With {n_labels}, the accuracy is {order} that of {title} {test}."
        if ranked
        else f"{n_labels} are too few to rank the vectors against {title}, or both are equally good {test}."
    )
    return {"best": best, "p_value": p_value, "ranked": ranked, "sentence": sentence}
