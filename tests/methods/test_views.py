import torch

from afgrl.methods.parts.views import ViewSettings, uniform_views
from afgrl.nn import GCN
from tests.conftest import communities

WITHOUT_DROPS = {"drop_edges_1": 0.0, "drop_edges_2": 0.0, "drop_features_1": 0.0, "drop_features_2": 0.0}


def test_uniform_views_have_the_drop_probabilities_of_the_settings_and_keep_self_loops():
    graph = communities(size=60)
    inputs = uniform_views(graph, ViewSettings(drop_edges_1=0.5, drop_edges_2=0.0, drop_features_1=1.0))
    (edges, features), (other_edges, other_features) = inputs.drops
    loops = inputs.gcn.adjacency.on_diagonal
    assert loops.sum() == graph.n
    assert (edges[loops] == 0).all()
    assert (edges[~loops] == 0.5).all()
    assert (features == 1).all()
    assert (other_edges == 0).all()
    assert torch.equal(other_features, torch.full((graph.n_features,), 0.1))


def test_views_without_drops_are_the_graph(small_graph, rng):
    inputs = uniform_views(small_graph, ViewSettings(**WITHOUT_DROPS))
    encoder = GCN([small_graph.n_features, 6, 4], "prelu", "none", rng)
    for (h,) in inputs.encoded([encoder], rng):
        assert torch.equal(h, encoder(inputs.gcn))


def test_every_call_draws_two_new_views_and_encodes_each_with_all_encoders(small_graph, rng):
    inputs = uniform_views(small_graph, ViewSettings(drop_edges_2=0.3, drop_features_2=0.2))
    encoder, same = (GCN([small_graph.n_features, 6], "prelu", "none", torch.Generator()) for _ in range(2))
    same.load_state_dict(encoder.state_dict())
    views = [*inputs.encoded([encoder, same], rng), *inputs.encoded([encoder, same], rng)]
    assert all(torch.equal(*outputs) for outputs in views)
    first = [outputs[0] for outputs in views]
    assert not any(torch.equal(a, b) for i, a in enumerate(first) for b in first[:i])
