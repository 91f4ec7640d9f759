"""The choice of the default rule, on scores made up by hand."""

import json

import pytest

from benchmarks import default_rule
from benchmarks.default_rule import BASELINES, DEFAULT, SCORES, leave_one_out, mean_ranks, overview, tables

TITLES = [title for title, *_ in SCORES]
A, B = "k = 4", "skip svd"


def scores(**graphs):
    """{graph: {name: value of all three scores}}."""
    return {graph: {name: dict.fromkeys(TITLES, value) for name, value in own.items()} for graph, own in graphs.items()}


def test_ranks_by_hand():
    found = mean_ranks(scores(first={DEFAULT: 3, A: 2, B: 1}, second={DEFAULT: 1, A: 2, B: 2}), ["first", "second"])
    assert found == {DEFAULT: 2.0, A: pytest.approx(1.75), B: pytest.approx(2.25)}


def test_a_candidate_that_is_missing_on_a_graph_is_not_ranked():
    found = mean_ranks(scores(first={DEFAULT: 3, A: 2}, second={DEFAULT: 1}), ["first", "second"])
    assert found == {DEFAULT: 1.0}


def test_the_choice_for_a_graph_does_not_see_that_graph():
    own = scores(
        one={DEFAULT: 1, A: 2, B: 9},
        two={DEFAULT: 1, A: 2, B: 0},
        three={DEFAULT: 1, A: 2, B: 0},
    )
    assert leave_one_out(own) == {"one": A, "two": A, "three": A}
    own["two"] = {name: dict.fromkeys(TITLES, value) for name, value in {DEFAULT: 1, A: 2, B: 9}.items()}
    assert leave_one_out(own)["three"] == B


def test_the_table_marks_what_is_below_the_best_baseline(tmp_path):
    values = dict.fromkeys(BASELINES, 90.0) | {DEFAULT: 89.0, A: 89.9}
    answer = {
        "command": "python -m benchmarks.default_rule", "splits": 20, "seeds": 1, "scores": scores(x=values, y=values),
        "environment": {"device": "CPU", "versions": {"torch": "2"}, "commit": "abc"},
    }  # fmt: skip
    text = tables(json.loads(json.dumps(answer)))
    assert "| x | 90.00 | 90.00 | 90.00 | 90.00 | *89.00* | 89.90 | k = 4 |" in text
    assert "| k = 4 | 1.00 | +0.90 |" in text


def test_the_overview_has_the_best_baseline_and_the_choice_for_each_graph():
    alone = {
        "splits": 20, "seeds": 3, "environment": {"device": "CPU", "commit": "abc"},
        "scores": scores(x={"raw": 0.4, "hops": 0.5, DEFAULT: 0.6}, y={"svd": 0.7, DEFAULT: 0.8}),
    }  # fmt: skip
    candidates = {
        "splits": 5, "seeds": 1, "environment": {"commit": "def"},
        "scores": scores(x={DEFAULT: 0.61, A: 0.62}, y={DEFAULT: 0.81, A: 0.79}),
    }  # fmt: skip
    text = overview(alone, candidates)
    assert "commit abc. The others: 5 splits, 1 seed, commit def." in text
    assert (
        "| x | .50 / .5000 / .5000 | .60 / .6000 / .6000 | .61 / .6100 / .6100 | .61 / .6100 / .6100 | default |"
        in text
    )
    assert (
        "| y | .70 / .7000 / .7000 | .80 / .8000 / .8000 | .81 / .8100 / .8100 | .79 / .7900 / .7900 | k = 4 |" in text
    )


def test_candidates_differ_from_the_default(monkeypatch, tmp_path):
    """Every candidate names settings that exist and changes at least one kind of graph."""
    from afgrl.config import resolve
    from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
    from tests.conftest import communities

    graph = communities()
    defaults = resolve(NodeEmbedderSettings, graph=graph)
    for name, change in default_rule.CANDIDATES.items():
        settings = resolve(NodeEmbedderSettings, change(defaults), graph=graph)
        assert name == DEFAULT or change(defaults), name
        assert settings.n_components == 512
