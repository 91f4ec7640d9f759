"""The quality panel on a tiny run: its parts, its trainings, its verdict, and the command."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from afgrl import NodeEmbedder, RawFeatures, compare_methods, quality
from afgrl.analysis.clustering import cluster_run
from afgrl.analysis.quality import panel as panel_module
from afgrl.analysis.quality import retraining
from afgrl.analysis.quality.few_labels import probe_few_labels
from afgrl.analysis.quality.panel import assess_run
from afgrl.analysis.quality.verdict import (
    AGREEMENT,
    RELIABILITY,
    RULE,
    decide,
    majority,
    reliability,
    verdict_on,
    vote_of,
)
from afgrl.analysis.quality.verdict import Criterion as Compared
from afgrl.cli import quality_tables
from afgrl.config import resolve
from afgrl.data import Dataset
from afgrl.data.splits import random_splits
from afgrl.errors import Interrupted, UserError
from afgrl.evaluate.unlabeled.links import auc_difference_error, link_scores
from afgrl.experiment.training import train_run
from afgrl.methods import method_class
from afgrl.report.payload import page_payload
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec
from benchmarks import RESULTS
from benchmarks.verdict import summary
from tests.cli.test_commands import afgrl
from tests.conftest import communities

CPU = torch.device("cpu")
SPREAD = {"effective_rank": 30.0, "mean_cosine": 0.1}  # of vectors that have not collapsed
SMALL = {
    "steps": 4, "batch_size": 16, "n_components": 8, "predictor_width": 8, "encoder_width": 8, "n_clusters": 4,
    "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run of 122 nodes in three groups, of which ten nodes have labels."""
    graph = communities(size=40)
    y = np.full(graph.n, -1)
    y[:120:12] = np.arange(0, 120, 12) // 40
    dataset = Dataset("groups", graph, y, random_splits(graph.n, count=2))
    path = tmp_path_factory.mktemp("quality") / "run"
    NodeEmbedder(**SMALL).fit(dataset).save(path)
    run = Run.open(path)
    cluster_run(run, 3)
    for epoch, drift in ((10, 0.2), (20, 0.5)):  # as `afgrl fit` logs it
        run.append(HISTORY, {"epoch": epoch, "loss": 0.1, "spread": 0.6, "rank": 3.0, "drift": drift})
    return path


@pytest.fixture(scope="module")
def panel(saved):
    return assess_run(Run.open(saved), CPU)


def test_the_panel_has_every_part_for_every_kind_of_vectors(panel, saved):
    assert panel["vectors"].keys() == {"trained", "random", "hops", "raw", "svd", "ppr"}
    names = {"effective_rank", "mean_cosine", "constant_columns", "hubness", "modularity", "conductance"}
    for name, found in panel["vectors"].items():
        links = {"link_auc"} if name == "trained" else {"link_auc", "link_auc_error"}
        assert found.keys() == names | {"cluster_entropy"} | links
        assert all(np.isfinite(value) for value in found.values())
    assert panel["stability"]["edges"].keys() == {"trained", "random", "hops", "svd", "ppr"}
    assert panel["stability"]["seeds"].keys() == {"trained"}
    assert len(panel["stability"]["edges"]["ppr"]["clusters"]) == retraining.N_EDGE_SAMPLES
    shares = {"both": 120 / 122, "features": 2 / 122, "neighbors": 0, "nothing": 0}
    assert panel["information"] == pytest.approx(shares, abs=1e-6)  # rounded to six digits
    assert panel["training"] == {"spread": 0.6, "rank": 3.0, "drift": 0.5, "late_drift": 0.6}
    assert Run.open(saved).quality() == panel
    assert json.loads((saved / "quality.json").read_text()) == panel


def test_link_prediction_is_that_of_vectors_trained_without_the_hidden_edges(panel, saved):
    graph = Run.open(saved).dataset().graph
    hidden = retraining.hidden_edges(graph)
    assert hidden.graph.n_edges == graph.n_edges - round(0.05 * graph.n_edges)
    vectors = torch.from_numpy(NodeEmbedder(**SMALL | _settings(saved)).fit(hidden.graph).embedding_)
    trained, raw = (link_scores(rows, hidden.positive, hidden.negative) for rows in (vectors, graph.x))
    assert panel["vectors"]["trained"]["link_auc"] == pytest.approx(trained.auc, abs=1e-6)
    assert panel["vectors"]["raw"]["link_auc_error"] == pytest.approx(auc_difference_error(trained, raw), abs=1e-6)
    scored = hidden.positive.shape[1]
    assert panel["links"] == {"hidden_share": 0.05, "scored": scored, "pairs": 10 * scored}


def _settings(saved):
    """Complete, since defaults that follow the graph would follow the one without the hidden edges."""
    settings = dict(Run.open(saved).spec().settings)
    return {"random_state": settings.pop("seed"), **settings, "device": "cpu"}


def test_finished_trainings_are_used_again(panel, saved, monkeypatch):
    def train(*arguments):
        raise AssertionError("trained again")

    monkeypatch.setattr(retraining, "train_run", train)
    assert assess_run(Run.open(saved), CPU) == panel


def test_an_interrupted_panel_says_what_is_saved_and_continues(panel, saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "run", ignore=shutil.ignore_patterns("edges-2*", "seed-*", "quality.json"))
    run, finished = Run.open(tmp_path / "run"), []

    def train(part, *arguments):
        finished.append(part.path.name)
        raise Interrupted("Interrupted after epoch 1 of 4.")

    with monkeypatch.context() as patch:
        patch.setattr(retraining, "train_run", train)
        with pytest.raises(Interrupted, match=r"with 90% of the edges, sample 2.*saved in '.*quality'.*continues"):
            assess_run(run, CPU)
    assert len(finished) == 1
    assert run.quality() is None
    assert assess_run(run, CPU) == panel


def test_quick_leaves_out_what_needs_training(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run", ignore=shutil.ignore_patterns("quality*"))
    answer = quality(tmp_path / "run", quick=True, device="cpu")
    assert (answer["links"], answer["stability"], answer["verdict"]["word"]) == (None, None, None)
    assert "No verdict" in answer["verdict"]["sentence"]
    assert not (tmp_path / "run" / "quality").exists()
    printed = json.loads(afgrl("quality", tmp_path / "run", "--quick", "--device", "cpu", "--json").stdout)
    assert printed == answer == Run.open(tmp_path / "run").quality()


def test_quick_does_not_replace_a_complete_panel(panel, saved):
    messages = []
    assert assess_run(Run.open(saved), CPU, quick=True, message=messages.append)["quick"]
    assert Run.open(saved).quality() == panel
    assert "The complete panel in" in messages[-1]


def test_a_graph_with_few_edges_has_stability_and_no_verdict(tmp_path):
    run, messages = Run(tmp_path / "run"), []
    NodeEmbedder(**SMALL).fit(communities()).save(run.path)
    answer = assess_run(Run.open(run.path), CPU, message=messages.append)
    assert answer["stability"]["seeds"].keys() == {"trained"}
    assert (answer["links"], answer["verdict"]["word"]) == (None, None)
    assert any("Link prediction needs at least 390 edges" in text for text in messages)


def test_a_method_that_does_not_train_gets_no_verdict(tmp_path):
    RawFeatures(device="cpu").fit(communities(size=40)).save(tmp_path / "run")
    answer = assess_run(Run.open(tmp_path / "run"), CPU)
    assert "link_auc" in answer["vectors"]["trained"]
    assert answer["verdict"] == {
        "word": None, "measures": {}, "sentence": "No verdict: the method of this run does not train."
    }  # fmt: skip


def test_all_runs_on_a_graph_are_measured_on_the_same_edges(saved):
    graph = Run.open(saved).dataset().graph
    for first, second in zip(retraining.with_changes(graph, 0), retraining.with_changes(graph, 5), strict=True):
        assert first.graph.fingerprint == second.graph.fingerprint
        assert second.seed == first.seed + 5


def test_labels_from_which_a_method_has_learned_are_not_probed(tmp_path):
    dataset = Dataset("groups", communities(), np.arange(62) % 3, random_splits(62, count=1))
    spec = RunSpec("groups", "supervised_gcn", settings={"epochs": 2})
    _, settings = spec.resolved(dataset)
    run = Run(tmp_path / "run")
    run.path.mkdir()
    run.save_spec(replace(spec, settings=settings.model_dump()))
    run.save_dataset(dataset)
    train_run(run, spec, dataset, settings, CPU)
    labels = assess_run(run, CPU, quick=True)["labels"]
    assert labels == {"labeled": 62, "sentence": panel_module.LEARNED}


def test_the_command_prints_what_python_returns(panel, saved):
    assert (
        json.loads(afgrl("quality", saved, "--device", "cpu", "--json").stdout) == panel == quality(saved, device="cpu")
    )
    shown = " ".join(afgrl("quality", saved, "--device", "cpu", "--quiet").stdout.split())  # captions are wrapped
    for text in ("link AUC", "stability", "probe accuracy", "features only", "Verdict:", "too few to rank"):
        assert text in shown


def test_the_page_has_the_panel(panel, saved):
    shown = page_payload(Run.open(saved), "run", {})["quality"]
    assert shown["verdict"] == panel["verdict"]["sentence"]
    assert [row["kind"] for row in shown["rows"]] == ["trained"] + 5 * ["baseline"]
    assert shown["rows"][0]["cells"][0] == panel["vectors"]["trained"]["link_auc"]
    assert shown["stability"] == panel["stability"]


def test_a_run_is_replaced_with_its_panel(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run")
    NodeEmbedder(**SMALL).fit(communities()).save(tmp_path / "run", force=True)
    assert not {"quality", "quality.json"} & {file.name for file in (tmp_path / "run").iterdir()}


def test_a_damaged_panel_is_one_sentence(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run")
    for content in ("{", '{"vectors": {"trained": 3}}', "[]"):
        (tmp_path / "run" / "quality.json").write_text(content)
        with pytest.raises(UserError, match=r"quality\.json.*write it again with `afgrl quality`"):
            Run.open(tmp_path / "run").quality()


def test_votes_compare_with_the_best_baseline_within_a_margin():
    vectors = {"trained": {"a": 0.80, "b": 0.3}, "random": {"a": 9, "b": 0}, "raw": {"a": 0.7, "b": 0.4}}
    vectors["ppr"] = {"a": 0.795, "b": 0.5}
    assert vote_of(vectors, Compared("a", "A", 0.01))["vote"] == 0
    assert vote_of(vectors, Compared("a", "A", 0.001))["vote"] == 1
    assert vote_of(vectors, Compared("b", "B", 0.01))["vote"] == -1
    assert vote_of(vectors, Compared("b", "B", 0.01, sign=-1)) == {
        "trained": 0.3, "best": 0.4, "baseline": "raw", "least": 0.01, "vote": 1,
    }  # fmt: skip
    vectors["ppr"] |= {"b_error": 0.09}
    assert vote_of(vectors, Compared("b", "B", 0.01))["vote"] == -1  # .2 of two errors of .09
    vectors["ppr"] |= {"b_error": 0.11}
    assert vote_of(vectors, Compared("b", "B", 0.01))["vote"] == 0
    assert vote_of(vectors, Compared("c", "C", 0.01)) is None
    assert [majority(votes) for votes in ([1, 1, -1], [0, -1], [1, -1], [])] == [1, -1, 0, 0]


def test_answers_that_labels_seldom_confirm_are_not_given():
    for kept, collapsed, answers in (
        (False, False, [1, None, -1]), (True, False, [1, None, None]), (False, True, [None, None, None]),
    ):  # fmt: skip
        assert [decide(vote, keeps_untrained=kept, collapsed=collapsed) for vote in (1, 0, -1)] == answers


@pytest.mark.parametrize(("rank", "cosine"), [(1.2, 0.5), (30.0, 0.995)])
def test_collapsed_vectors_are_not_called_better(rank, cosine):
    own = {"link_auc": 1.0, "effective_rank": rank, "mean_cosine": cosine}
    verdict = verdict_on({"trained": own, "raw": {"link_auc": 0.5}}, keeps_untrained=False)
    assert verdict["word"] == "undecided"
    assert f"have collapsed: nearly all have the same direction (effective rank {rank:.1f}" in verdict["sentence"]


@pytest.mark.parametrize(
    ("trained", "kept", "word", "text"),
    [
        (0.9, True, "better than", "better than the best vectors without training, by link prediction AUC (0.900"),
        (0.2, False, "worse than", "worse than the best vectors without training, by link prediction AUC (0.200"),
        (0.2, True, "undecided", "undecided. The best vectors without training have a higher link prediction AUC ("),
        (0.505, False, "undecided", "undecided. The best vectors without training have about the same link prediction"),
        (0.495, True, "undecided", "undecided. The best vectors without training have about the same link prediction"),
    ],
)
def test_the_verdict_names_its_measure_and_how_often_it_agreed(trained, kept, word, text):
    vectors = {"trained": SPREAD | dict.fromkeys(RULE, trained), "raw": dict.fromkeys(RULE, 0.5)}
    verdict = verdict_on(vectors, keeps_untrained=kept)
    assert verdict["word"] == word
    assert verdict["sentence"].startswith(f"Verdict: {text}")
    assert verdict["sentence"].endswith(RELIABILITY)


def test_the_panel_knows_which_vectors_contain_training_free_ones(saved):
    graph = communities()
    for overrides, kept in (({}, True), ({"skip": "none"}, False)):
        settings = resolve(method_class("node_embedder").settings_class, overrides, graph=graph)
        assert method_class("node_embedder").keeps_untrained(settings) == kept
    assert not method_class("dgi").keeps_untrained(resolve(method_class("dgi").settings_class, {}, graph=graph))


def test_vectors_with_training_free_ones_are_not_called_worse(panel, saved, monkeypatch):
    """The run has default ``skip``, and its panel passes that on."""
    kept = []

    def verdict(vectors, *, keeps_untrained, trains):
        kept.append(keeps_untrained)
        return verdict_on(vectors, keeps_untrained=keeps_untrained, trains=trains)

    monkeypatch.setattr(panel_module, "verdict_on", verdict)
    assert assess_run(Run.open(saved), CPU) == panel
    assert kept == [True]


def test_the_verdict_says_how_often_labels_agreed_with_it():
    """Also if its rule is chosen on other runs, and with the settings that most users have."""
    honest = {"decided": 24, "agreed": 17}
    default = {"runs": 9, "decided": 3, "agreed": 2, "better": 8}
    measured = {"graphs": 10, "runs": 48, "decided": 22, "agreed": 20, "leave_one_setting_out": honest}
    sentence = reliability(measured | {"default": default})
    for part in (
        "On 10 graphs with labels and 48 runs", "given for 22, and labels agreed with 20 of these (17 of 24 if",
        "given for 3 of 9 runs and labels agreed with 2;", "8 of all 9 are better",
    ):  # fmt: skip
        assert part in sentence


def test_the_figures_of_the_verdict_are_those_of_the_measurement():
    answer = json.loads((RESULTS / "verdict.json").read_text())
    found = summary(answer)
    assert answer["summary"] == found
    nested = ("default", "leave_one_setting_out")
    for part, shipped in ((found, AGREEMENT), *((found[name], AGREEMENT[name]) for name in nested)):
        assert {name: part[name] for name in shipped if name not in nested} == {
            name: value for name, value in shipped.items() if name not in nested
        }
    assert tuple(found["rule"]) == RULE


def test_the_probe_has_an_interval_and_says_whether_labels_suffice():
    draw = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    good = torch.from_numpy(np.eye(2)[y] + 0.1 * draw.normal(size=(60, 2))).float()
    noise = torch.from_numpy(draw.normal(size=(60, 2))).float()
    answer = probe_few_labels({"trained": good, "raw": noise}, y)
    assert answer["accuracy"]["trained"]["mean"] == 100
    # Wilson's lower bound for 60 of 60 is n / (n + z²) with z = 1.96.
    assert answer["accuracy"]["trained"]["low"] == pytest.approx(100 * 60 / (60 + 1.95996**2), abs=1e-3)
    assert answer["ranked"]
    assert "higher than that of the best others (raw features)" in answer["sentence"]
    few = np.where(np.arange(60) % 10 == 0, y, -1)
    answer = probe_few_labels({"trained": good[few >= 0], "raw": noise[few >= 0]}, few)
    assert (answer["labeled"], answer["ranked"]) == (6, False)
    assert "6 labels are too few to rank" in answer["sentence"]


def test_labels_that_are_too_few_for_a_probe(panel):
    vectors = {"trained": torch.eye(4), "raw": torch.eye(4)}
    assert probe_few_labels(vectors, None) is None
    assert probe_few_labels(vectors, np.full(4, -1)) is None
    answer = probe_few_labels(vectors, np.array([0, 0, 1, -1]))
    assert "accuracy" not in answer
    assert answer["sentence"].startswith("Too few labels for a probe")
    assert answer["sentence"] in [str(part) for part in quality_tables.quality(panel | {"labels": answer})]


@pytest.fixture
def tables(tmp_path):
    graph = communities()
    folder = tmp_path / "tables"
    folder.mkdir()
    rows = [f"n{i}," + ",".join(f"{value:.3f}" for value in row) for i, row in enumerate(graph.x.tolist())]
    heads = ",".join(f"f{i}" for i in range(graph.n_features))
    (folder / "nodes.csv").write_text("\n".join([f"id,{heads}", *rows, ""]))
    edges = [f"n{a},n{b}" for a, b in graph.edge_index.T.tolist() if a < b]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    return folder


def test_methods_are_trained_and_compared_in_one_table_and_page(tables, tmp_path):
    words = ["--methods", "raw,svd", "--out", tmp_path / "runs", "--device", "cpu", "--map", "pca", "--json"]
    answer = afgrl("compare", tables, *words)
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [row["method"] for row in found["runs"]] == ["raw", "svd"]
    assert '"name":"svd"' in (tmp_path / "runs" / "comparison.html").read_text()
    again = afgrl("compare", tmp_path / "runs" / "raw", tmp_path / "runs" / "svd", "--device", "cpu", "--map", "pca")
    assert again.exit_code == 0, again.stderr
    assert "modul." in again.stdout
    assert (tmp_path / "runs" / "raw" / "comparison.html").is_file()
    rows = compare_methods(tables, ["raw", "svd"], tmp_path / "runs", device="cpu")
    assert rows == found["runs"]


def test_methods_are_compared_without_scores_if_labels_are_too_few(tables, tmp_path):
    heads, first, *rest = (tables / "nodes.csv").read_text().splitlines()
    rows = [f"{heads},team", f"{first},a", *(f"{row}," for row in rest), ""]
    (tables / "nodes.csv").write_text("\n".join(rows))
    said: list[str] = []
    (row,) = compare_methods(tables, ["raw"], tmp_path / "runs", device="cpu", label="team", message=said.append)
    assert "modularity" in row
    assert "classification accuracy" not in row
    assert any(sentence.startswith("The scores are left out: Split 0 has no") for sentence in said)


@pytest.mark.parametrize("others", [["one"], ["two"]])
def test_a_comparison_names_the_graphs_if_there_are_several(others):
    rows = [{"name": graph, "dataset": graph, "n_clusters": 3, "modularity": 0.5} for graph in ["one", *others]]
    (table,) = quality_tables.comparison(rows)
    several = others == ["two"]
    assert ("graph" in [column.header for column in table.columns]) == several
    assert ("only runs on the same graph" in table.caption) == several


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"settings": {"n_components": 3}}),
        ({"settings": {"n_components": 3}}, {}),  # what is not given is the default, not what the run has
        ({"settings": {"seed": 1}}, {}),
        ({}, {"columns": ("f0=ignore",)}),
    ],
)
def test_a_run_with_other_settings_is_not_used(first, second, tables, tmp_path):
    rows = compare_methods(tables, ["svd"], tmp_path / "runs", device="cpu", **first)
    with pytest.raises(UserError, match="other options for reading it or other settings"):
        compare_methods(tables, ["svd"], tmp_path / "runs", device="cpu", **second)
    assert compare_methods(tables, ["svd"], tmp_path / "runs", device="cpu", **first) == rows


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a", "b", "--methods", "raw"], "trains on one source, but 2 were given"),
        (["demo", "--methods", ","], "needs at least one name"),
        (["demo", "--methods", "raw,raw"], "Each method can be given once"),
        (["demo", "--methods", "rav"], "Unknown method 'rav'"),
        (
            ["demo", "--methods", "dgi,svd", "--set", "epochs=2"],
            "do not suit the method 'svd'. Unknown setting 'epochs'",
        ),
        (["demo", "--methods", "dgi,svd", "--set", "alpha=2"], "do not suit the method 'dgi'. Unknown setting 'alpha'"),
        (
            ["demo", "--methods", "node_embedder,dgi", "--set", "steps=2"],
            "do not suit the method 'dgi'. Unknown setting",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = afgrl("compare", *words)
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert not list(tmp_path.iterdir())  # nothing was trained


def test_a_baseline_that_was_not_measured_does_not_vote():
    vectors = {"trained": {"a": 0.8}, "hops": {}, "raw": {"a": 0.7}}
    assert vote_of(vectors, Compared("a", "A", 0.01))["baseline"] == "raw"
    assert vote_of({"trained": {"a": 0.8}, "hops": {}}, Compared("a", "A", 0.01)) is None
