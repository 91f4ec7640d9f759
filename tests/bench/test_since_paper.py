"""The benchmark of methods since the paper: which runs it asks for, and its tables, on scores made up by hand."""

import json

import pytest

from afgrl.reproduce.paper import SINCE
from benchmarks import since_paper
from benchmarks.since_paper import PARTS, arguments, published_graphs, summary, wanted_runs, with_earlier, write
from benchmarks.since_paper_tables import SCORES, markdown_file, mean_ranks, new_nodes_file, ranks


def scores(value, **other):
    return {name: value for _, name, _ in SCORES} | {"seconds": 2.0, "peak_bytes": 2**30, "epochs": 5.0} | other


def test_ranks_by_hand():
    assert ranks({"a": 3.0, "b": 1.0, "c": 3.0}) == {"a": 1.5, "b": 3.0, "c": 1.5}


def test_only_graphs_with_all_methods_are_ranked():
    found, graphs = mean_ranks({
        "cora": {"a": scores(1.0), "b": scores(2.0)},
        "acm": {"a": scores(5.0), "b": scores(4.0)},
        "cs": {"a": scores(9.0)},
        "photo": {"a": scores(9.0), "b": scores(1.0) | {"nmi": None}},
    })  # fmt: skip
    assert graphs == ["cora", "acm"]
    assert found["a"]["accuracy"] == found["b"]["accuracy"] == 1.5


def test_published_settings_are_run_where_they_exist(tmp_path, monkeypatch):
    monkeypatch.setattr(since_paper, "spec_of", lambda graph, given, **settings: since_paper.RunSpec(graph))
    assert "cora" in published_graphs("ns4gc")
    assert published_graphs("dgi") == set()
    runs = wanted_runs(arguments(["--graphs", "physics,cora", "--cache", str(tmp_path)]))
    assert next(key for key in runs if key[0] == "common")[1] == "cora"  # the smaller graph first
    of_cora = {method for part, graph, method in runs if (part, graph) == ("published", "cora")}
    assert of_cora == {"cca_ssg", "graphmae2", "ns4gc"}
    assert {method for part, graph, method in runs if (part, graph) == ("common", "cora")} >= {"afgrl", *SINCE}
    of_papers = {key: specs for key, specs in runs.items() if key[0] == "published"}
    assert all(spec.recipe == "paper" for specs in of_papers.values() for spec in specs)
    assert [spec.splits for spec in of_papers["published", "cora", "ns4gc"]] == 3 * ["canonical"]


def test_the_tables_of_a_partial_result():
    environment = {"device": "a GPU", "commit": "abc", "versions": {"torch": "2"}}
    head = {"command": "…", "splits": 20, "fits": 10, "seeds": 1, "settings": {}, "environment": environment}
    empty = head | {"common": {}, "untrained": {}, "published": {}, "new-nodes": {}}
    assert "a GPU" in markdown_file(empty)
    answer = (
        empty
        | {"common": {"cora": {"signa": scores(0.5)}, "cs": {"sgrl": scores(0.25)}}}
        | {"untrained": {"cora": {"svd": scores(0.75) | {"seconds": None}}}}
        | {"published": {"photo": {"signa": scores(0.5, accuracy=95.0)}}}
        | {"new-nodes": {"cora": {"signa": {"accuracy": 70.0}}}}
    )
    text = markdown_file(answer)
    assert "| graph | signa | svd | sgrl |" in text
    assert "| cora | 0.500 | 0.750 | – |" in text
    assert "| photo | signa | 95.00 | 0.500 |" in text
    assert "| cora | 70.00 |" in text
    assert "| cora | 70.00 |" in new_nodes_file(answer)
    assert "Mean rank" not in text  # no graph has all methods


def test_scores_are_averaged_over_seeds():
    def record(value, seconds):
        return {"last-epoch": {"classification": {"accuracy": {"mean": value, "std": 1.0}},
                               "similarity": {"sim@5": {"mean": value}}, "clustering": {"nmi": {"mean": value}}},
                "seconds": seconds, "peak_bytes": None}  # fmt: skip

    own = summary([record(1.0, 2.0), record(2.0, 4.0)])
    assert (own["accuracy"], own["seconds"], own["peak_bytes"], own["readout nmi"]) == (1.5, 3.0, None, None)


@pytest.mark.parametrize("words", [["--parts", "common", "untrained"]])
def test_files_are_written_although_nothing_is_measured(tmp_path, words, monkeypatch):
    monkeypatch.setattr(since_paper, "side_jobs", lambda given: [])
    given = arguments([*words, "--out", str(tmp_path / "out.json"), "--cache", str(tmp_path)])
    write(given, {})
    assert json.loads(given.out.read_text())["common"] == {}
    assert given.out.with_suffix(".md").is_file()


def answer_of(common, **asked):
    own = {"splits": 5, "fits": 3, "seeds": 1, "settings": {}, "environment": {"commit": "new"}}
    return own | {part: {} for part in PARTS} | {"common": common} | asked


def test_earlier_scores_stay_unless_they_are_measured_again():
    earlier = answer_of({"acm": {"dgi": scores(1.0)}, "cora": {"afgrl": scores(1.0), "signa": scores(1.0)}})
    merged = with_earlier(answer_of({"cora": {"signa": scores(2.0)}}), earlier)["common"]
    assert list(merged) == ["cora", "acm"]
    assert merged["cora"] == {"afgrl": scores(1.0), "signa": scores(2.0)}
    assert merged["acm"] == {"dgi": scores(1.0)}


@pytest.mark.parametrize("changed", [{"splits": 20}, {"seeds": 2}, {"settings": {"epochs": 1}}])
def test_scores_of_another_protocol_are_not_merged(changed):
    earlier = answer_of({"acm": {"dgi": scores(1.0)}}, **changed)
    new = {"cora": {"signa": scores(2.0)}}
    assert with_earlier(answer_of(new), earlier)["common"] == new
