import math
from dataclasses import replace

import pytest
import torch

from afgrl.errors import UserError
from afgrl.methods.deepwalk import _stride
from tests.methods.short_runs import small_settings, start_run, train_run


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 100])
def test_n_consecutive_walks_start_at_every_node_once(n):
    assert sorted((torch.arange(n) * _stride(n) % n).tolist()) == list(range(n))


def test_walks_start_at_the_nodes_in_turn(small_graph, monkeypatch):
    state, inputs = start_run("deepwalk", small_graph, batch_size=7)
    walks, started = type(state.method).walks, []

    def watched(method, inputs, start, rng):
        started.append(start)
        return walks(method, inputs, start, rng)

    monkeypatch.setattr(type(state.method), "walks", watched)
    for _ in range(math.ceil(small_graph.n / 7)):
        state.method.loss(inputs, state.rng)
    assert sorted(torch.cat(started)[: small_graph.n].tolist()) == list(range(small_graph.n))


def test_the_vector_of_a_node_without_edges_is_zero(small_graph):
    _, vectors = train_run("deepwalk", small_graph)
    degree = torch.bincount(small_graph.edge_index[0], minlength=small_graph.n)
    assert torch.equal(vectors.any(1), degree > 0)


def test_the_default_number_of_epochs_gives_every_node_its_walks(small_graph):
    settings = small_settings("deepwalk", small_graph, walks_per_node=3, batch_size=10)
    assert settings.epochs == 6  # set by the short run
    fields = settings.model_dump(exclude={"epochs"})
    assert type(settings).graph_defaults(small_graph, fields) == {"epochs": math.ceil(small_graph.n * 3 / 10)}


def test_features_are_appended_with_the_same_length(small_graph):
    _, vectors = train_run("deepwalk_feats", small_graph)
    walks, features = vectors[:, :8], vectors[:, 8:]
    assert torch.allclose(features, torch.nn.functional.normalize(small_graph.x))
    lengths = walks.norm(dim=1)
    assert torch.allclose(lengths[lengths > 0], torch.ones(int((lengths > 0).sum())), atol=1e-6)  # float32


def test_a_graph_with_other_edges_is_refused(small_graph):
    state, _ = train_run("node2vec", small_graph)
    edges = small_graph.edge_index
    other = replace(small_graph, edge_index=edges[:, (edges > 0).all(0)])  # without the edges of node 0
    with pytest.raises(UserError, match="'node2vec' learns one vector per node of one graph"):
        state.method.embed_graph(other)
