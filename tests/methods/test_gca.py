import pytest
import torch

from afgrl.graph import Graph
from tests.methods.short_runs import start_run


@pytest.mark.parametrize("centrality", ["degree", "pagerank", "eigenvector"])
def test_edges_and_features_of_central_nodes_are_dropped_less(centrality):
    spokes = torch.stack([torch.zeros(9, dtype=torch.int64), torch.arange(1, 10)])
    graph = Graph(torch.eye(11) + 0.01, torch.cat([spokes, torch.tensor([[9], [10]])], dim=1))
    _, inputs = start_run("gca", graph, centrality=centrality, drop_edges_1=0.4, drop_features_1=0.4)
    adjacency, (edges, features) = inputs.gcn.adjacency, inputs.drops[0]
    assert (edges[adjacency.on_diagonal] == 0).all()
    to_hub = (adjacency.rows == 0) & (adjacency.indices == 1)
    to_leaf = (adjacency.rows == 1) & (adjacency.indices == 0)
    assert edges[to_hub] < edges[to_leaf] <= 0.7
    assert features[0] < features[1]  # feature 0 is the hub's


def test_the_two_views_have_their_own_rates_and_the_threshold_caps_them(small_graph):
    rates = {"drop_edges_1": 0.1, "drop_edges_2": 0.4, "drop_features_1": 0.4, "drop_features_2": 0.1}
    _, inputs = start_run("gca", small_graph, threshold=0.3, **rates)
    (first_edges, first_features), (second_edges, second_features) = inputs.drops
    assert first_edges.mean() < second_edges.mean()
    assert first_features.mean() > second_features.mean()
    assert max(float(drop.max()) for view in inputs.drops for drop in view) == pytest.approx(0.3)
