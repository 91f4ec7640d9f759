import torch

from afgrl.methods.parts.diffusion import heat, personalized_pagerank
from tests.methods.short_runs import start_run


def test_the_second_view_is_the_chosen_diffusion(small_graph):
    expected = {"ppr": personalized_pagerank(small_graph, 0.3, 5), "heat": heat(small_graph, 2.0, 5)}
    for diffusion, matrix in expected.items():
        _, inputs = start_run("mvgrl", small_graph, diffusion=diffusion, alpha=0.3, time=2.0)
        assert torch.equal(inputs.diffused.adjacency.indices, matrix.col_indices())
        assert torch.equal(inputs.diffused.values, matrix.values())


def test_the_vector_of_a_node_is_the_sum_over_both_views(small_graph):
    state, inputs = start_run("mvgrl", small_graph)
    method = state.method
    with torch.no_grad():
        expected = method.encoder(inputs.edges) + method.diffused_encoder(inputs.diffused)
    assert torch.equal(method.embed(inputs), expected)
