import numpy as np
import pytest
import torch

from afgrl.methods.defaults import EXACT_IN_BATCHES
from afgrl.methods.parts.positive_settings import LARGE
from afgrl.nn import Progress
from afgrl.train.cuda_graph import eager_step
from tests.conftest import communities
from tests.methods.short_runs import small_settings, start_run, train_run

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def settings(method="afgrl", **given):
    return small_settings(method, communities(), **given)


def test_training_brings_nodes_of_the_same_group_closer():
    graph = communities(n_groups=3, size=40, n_features=100, n_isolated=0, signal=0.5)
    group = np.repeat(np.arange(3), 40)

    def purity(vectors):
        unit = torch.nn.functional.normalize(vectors)
        nearest = (unit @ unit.T).fill_diagonal_(-2).topk(10).indices
        return (group[nearest] == group[:, None]).mean()

    state, inputs = start_run("afgrl", graph, epochs=0, n_hops=0, n_components=32)
    untrained = purity(state.method.embed(inputs))
    _, vectors = train_run("afgrl", graph, epochs=60, n_components=32, n_clusters=6, n_hops=0, learning_rate=0.01)
    assert purity(vectors) > untrained + 0.1


def test_large_graphs_are_searched_in_clusters_on_a_cpu_only():
    assert settings().searches_clusters(LARGE + 1, CPU)
    assert not settings().searches_clusters(LARGE, CPU)
    assert settings("node_embedder").searches_clusters(EXACT_IN_BATCHES + 1, CPU)
    assert not settings("node_embedder").searches_clusters(EXACT_IN_BATCHES, CPU)
    assert not settings("node_embedder").searches_clusters(EXACT_IN_BATCHES + 1, CUDA)
    assert not settings().searches_clusters(LARGE + 1, CUDA)
    assert not settings(search="exact").searches_clusters(LARGE + 1, CPU)
    assert settings(search="clusters").searches_clusters(10, CUDA)
    assert not settings(positives="knn").searches_clusters(LARGE + 1, CPU)  # it has no clusters


def test_the_target_starts_as_a_copy_of_the_encoder_and_follows_it(small_graph):
    state, inputs = start_run("afgrl", small_graph, momentum=0.75, schedule="constant")
    method = state.method.train()
    online, target = method.encoder.weights[0], method.target.weights[0]
    assert torch.equal(online, target)
    before = target.clone()
    eager_step(method, state.optimizer, state.rng, inputs)
    assert torch.equal(target, before)
    method.after_step(Progress(1, 6))
    assert torch.allclose(target, 0.75 * before + 0.25 * online, atol=1e-7)
    assert not torch.equal(target, before)


def test_diagnostics_count_the_positives_of_each_kind(small_graph):
    state, inputs = start_run("afgrl", small_graph, n_neighbors=5, positives="all")
    assert state.method.diagnostics() == {}
    eager_step(state.method.train(), state.optimizer, state.rng, inputs)
    pairs = state.method.search.pairs.compact()
    adjacent = {tuple(edge) for edge in small_graph.edge_index.T.tolist()}
    others = [(i, j) for i, j in zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True) if i != j]
    expected = round(sum(pair in adjacent for pair in others) / len(others), 4)
    logged = state.method.diagnostics()
    assert logged["pairs"] == len(pairs.src)
    assert logged["local"] == pytest.approx(expected, abs=1e-4)
    assert logged["local"] + logged["global"] >= 1  # every positive is local or global
