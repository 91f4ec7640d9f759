from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from afgrl.config import resolve
from afgrl.data.dataset import Dataset
from afgrl.data.splits import random_splits
from afgrl.errors import UserError
from afgrl.evaluate import cluster_scores, clustering_readout, smoothed_directions
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.untrained import untrained_embeddings
from afgrl.methods import method_class
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.runs.folder import Run
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.state import initial_state
from tests.conftest import communities, weighted

CPU = torch.device("cpu")


def labeled_run(path, graph, *, with_features=True):
    """A run with random vectors; every seventh node has no label."""
    y = np.where(np.arange(graph.n) % 7 == 0, -1, np.arange(graph.n) // 20 % 3)
    run = Run.create(path)
    settings = resolve(method_class("random").settings_class, {"n_components": 8}, graph=graph).model_dump()
    run.save_spec(RunSpec("", "random", settings=settings, evaluation=EvaluationPlan(n_fits=2)))
    run.save_dataset(Dataset("groups", graph, y, random_splits(graph.n, count=2)), with_features=with_features)
    vectors = np.random.default_rng(0).normal(size=(graph.n, 10)).astype(np.float32)
    run.save_embedding(graph.ids, vectors)
    return run, y, torch.from_numpy(vectors)


def one_direction(graph):
    """Each edge only from the lower to the higher node."""
    source, target = graph.edge_index
    return replace(graph, edge_index=graph.edge_index[:, source < target], directed=True)


@pytest.mark.parametrize("change", [lambda graph: graph, weighted, one_direction])
def test_the_readout_uses_all_nodes_and_is_scored_on_those_with_labels(change, tmp_path):
    graph = change(communities())
    run, y, vectors = labeled_run(tmp_path / "run", graph)
    found = evaluate_run(run, CPU, baselines=False)["last-epoch"]["clustering-readout"]
    rows = np.flatnonzero(y >= 0)
    adjacency = gcn_norm(graph)
    readout = clustering_readout(smoothed_directions(vectors, graph.x, adjacency), adjacency, int(y.max()) + 1)[rows]
    expected = cluster_scores(readout, y[rows], torch.Generator().manual_seed(0), n_fits=2, n_init=10)
    assert {name: score["values"] for name, score in found.items()} == expected


def test_a_run_without_features_and_without_a_source_cannot_be_evaluated(tmp_path):
    run, _, _ = labeled_run(tmp_path / "run", communities(), with_features=False)
    with pytest.raises(UserError, match="no source to load"):
        evaluate_run(run, CPU, baselines=False)


def test_all_baselines_have_a_readout(tmp_path):
    run, _, _ = labeled_run(tmp_path / "run", communities())
    scores = evaluate_run(run, CPU)
    assert scores == run.scores()
    assert list(scores["baselines"]) == ["random", "hops", "raw", "svd", "ppr"]
    assert all("clustering-readout" in tasks for tasks in scores["baselines"].values())


def interrupted_at(name, run):
    """Which embeddings are scored until the evaluation is interrupted before this one, and without an interruption."""
    scored = []

    def message(sentence):
        if sentence.startswith("Scoring"):
            scored.append(sentence.split()[-1].rstrip("."))
            if scored[-1] == name:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) if name else nullcontext():
        evaluate_run(run, CPU, message=message)
    return scored


def test_an_interrupted_evaluation_continues(tmp_path):
    run, _, vectors = labeled_run(tmp_path / "run", communities())
    expected = evaluate_run(run, CPU)
    partial = run.path / "scores-partial.json"
    assert not partial.exists()
    assert interrupted_at("raw", run) == ["trained", "random", "hops", "raw"]
    assert interrupted_at("ppr", run) == ["raw", "svd", "ppr"]
    assert interrupted_at(None, run) == ["ppr"]
    assert run.scores() == expected
    assert not partial.exists()
    interrupted_at("raw", run)
    partial.write_text(partial.read_text()[:-20])
    assert interrupted_at("hops", run) == ["trained", "random", "hops"]
    run.save_embedding(run.ids(), -vectors.numpy())
    assert interrupted_at("random", run) == ["trained", "random"]


@pytest.mark.parametrize(("settings", "width"), [({"n_components": 8}, 8), ({"n_components": 600}, 40), ({}, 40)])
def test_svd_and_ppr_are_those_methods_at_most_as_wide_as_the_run(settings, width):
    graph = communities(n_features=10)
    name = "random" if settings else "raw"
    complete = resolve(method_class(name).settings_class, settings, graph=graph).model_dump()
    found = dict(untrained_embeddings(RunSpec("", name, settings=complete), Dataset("groups", graph), CPU))
    for method in ("svd", "ppr"):
        own = resolve(method_class(method).settings_class, {"n_components": min(width, 512)}, graph=graph)
        state, inputs = initial_state(method, own, graph, CPU)
        assert found[method].shape == (graph.n, width)
        assert torch.equal(found[method], state.method.embed(inputs))


def test_the_width_of_the_svd_is_limited(monkeypatch):
    monkeypatch.setattr("afgrl.experiment.untrained.SVD_COMPONENTS", 5)
    spec = RunSpec("", "random", settings={"n_components": 8})
    complete = resolve(method_class("random").settings_class, dict(spec.settings), graph=communities()).model_dump()
    found = dict(untrained_embeddings(replace(spec, settings=complete), Dataset("groups", communities()), CPU))
    assert found["svd"].shape[1] == found["ppr"].shape[1] == 5


def test_multi_hop_features_that_take_too_much_memory_are_left_out(monkeypatch):
    dataset, sentences = Dataset("groups", communities()), []
    spec = RunSpec("", "raw")
    size = 4 * 3 * dataset.graph.x.numel()
    monkeypatch.setattr("afgrl.experiment.untrained.free_memory", lambda kind: 4 * size)
    assert "hops" in dict(untrained_embeddings(spec, dataset, CPU, sentences.append))
    assert sentences == []
    monkeypatch.setattr("afgrl.experiment.untrained.free_memory", lambda kind: 4 * size - 1)
    assert "hops" not in dict(untrained_embeddings(spec, dataset, CPU, sentences.append))
    assert [sentence[:32] for sentence in sentences] == ["The baseline hops is left out: i"]
