"""scikit-learn's own checks of estimators. They pass tables, and our estimators take graphs: what applies to any input
runs on the estimators themselves, everything else on graphs without edges, whose features are those tables."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import EstimatorCheckFailedWarning, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from afgrl import AFGRL
from afgrl.estimators import MethodEstimator
from afgrl.methods import method_class

pytestmark = [
    # scikit-learn warns of skipped and of expected failures; both are asserted below.
    pytest.mark.filterwarnings(f"ignore::{cls.__module__}.{cls.__name__}")
    for cls in (SkipTestWarning, EstimatorCheckFailedWarning)
]
# Of the settings that an estimator has.
SMALL = {
    "epochs": 2, "n_components": 2, "predictor_width": 4, "n_clusters": 2, "hidden_width": 4, "projection_width": 4,
    "walk_length": 4, "window": 2, "encoder_width": 4,
}  # fmt: skip

# Checks that fail, and why they do not apply.
OWN_SENTENCE = "the input is refused with a UserError (a ValueError), whose sentence speaks of graphs and features"
OTHER_WORDS = {
    "check_n_features_in_after_fitting": OWN_SENTENCE,
    "check_complex_data": OWN_SENTENCE,
    "check_dtype_object": f"{OWN_SENTENCE}; the check expects a TypeError",
    "check_estimators_empty_data_messages": OWN_SENTENCE,
    "check_fit2d_predict1d": OWN_SENTENCE,
}
ONE_GRAPH = "the method learns one vector per node of one graph, and refuses to embed other nodes"
TRANSDUCTIVE = {"check_fit_idempotent": ONE_GRAPH, "check_methods_subset_invariance": ONE_GRAPH}
SKIPPED_BY_SCIKIT_LEARN = {"check_array_api_input"}  # needs SCIPY_ARRAY_API; a graph is not an array of that standard


def as_graph(table):
    """A graph of as many nodes and no edges."""
    if not hasattr(table, "shape"):
        table = np.asarray(table)
    n = table.shape[0]
    return sp.coo_array((n, n)), table


class OnTables:
    """Makes of an estimator one that takes the features of such a graph."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = tags.input_tags.sparse = True
        return tags

    def fit(self, X, y=None):
        return super().fit(as_graph(X))

    def transform(self, X):
        return super().transform(as_graph(X))


def on_tables(cls):
    """A class of this module, so that it can be pickled."""
    name = f"{cls.__name__}OnTables"
    if name not in globals():
        globals()[name] = type(name, (OnTables, cls), {"__module__": __name__})
    return globals()[name]


def failures(results):
    return {row["check_name"]: row["exception"] for row in results if row["status"] == "failed"}


def small(cls):
    known = inspect.signature(cls).parameters
    given = {name: value for name, value in SMALL.items() if name in known}
    return given | ({"steps": 2} if "steps" in known and "epochs" not in known else {})


CASES = [(cls, small(cls)) for cls in MethodEstimator.__subclasses__() if not issubclass(cls, OnTables)]


@pytest.mark.parametrize(("cls", "settings"), CASES, ids=lambda part: part.__name__ if inspect.isclass(part) else "")
def test_checks_on_graphs_without_edges(cls, settings):
    estimator = on_tables(cls)(**settings, device="cpu")
    expected = OTHER_WORDS | ({} if method_class(cls.method).inductive else TRANSDUCTIVE)
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert failures(results) == {}
    assert {row["check_name"] for row in results if row["status"] == "xfail"} == set(expected)  # none has become true
    assert {row["check_name"] for row in results if row["status"] == "skipped"} == SKIPPED_BY_SCIKIT_LEARN
    assert len(results) > 40


def test_scikit_learn_is_told_that_the_input_is_no_table():
    """Otherwise its tools would pass tables."""
    assert AFGRL().__sklearn_tags__().input_tags.two_d_array is False
    assert AFGRL().__sklearn_tags__().transformer_tags.preserves_dtype == ["float32"]
    assert failures(check_estimator(AFGRL(), on_fail=None, on_skip=None)) == {}
