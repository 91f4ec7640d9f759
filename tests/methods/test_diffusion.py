import networkx as nx
import pytest
import torch

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.parts import diffusion
from afgrl.methods.parts.diffusion import heat, personalized_pagerank
from afgrl.ops.propagation.adjacency import gcn_norm

BOTH = [personalized_pagerank, heat]


def one_way(graph):
    edges = graph.edge_index
    return Graph(graph.x, edges[:, (edges[0] < edges[1]) | (edges[0] % 3 == 0)], directed=True)


def exact(diffuse, graph, number):
    """By dense linear algebra in float64."""
    s, identity = gcn_norm(graph).to_dense().double(), torch.eye(graph.n, dtype=torch.float64)
    if diffuse is heat:
        return torch.linalg.matrix_exp(-number * (identity - s))
    return number * torch.linalg.inv(identity - (1 - number) * s)


@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize(
    ("diffuse", "number"),
    [*((personalized_pagerank, alpha) for alpha in (0.2, 0.05, 1.0)), *((heat, time) for time in (5.0, 0.1, 200.0))],
)
def test_with_all_entries_the_diffusion_is_exact(diffuse, number, is_directed, small_graph):
    graph = one_way(small_graph) if is_directed else small_graph
    expected = exact(diffuse, graph, number)
    for keep in (graph.n, 10 * graph.n):
        ours = diffuse(graph, number, keep=keep)
        assert ours.dtype == torch.float32
        # The truncated coefficients sum to 1e-5; the norm of the series is 1.
        assert (ours.to_dense().double() - expected).abs().max() < 2e-5


def test_the_defaults_are_those_of_the_paper(small_graph):
    star = Graph(torch.ones(100, 1), torch.tensor(list(nx.star_graph(99).edges)).T)
    for diffuse, number in ((personalized_pagerank, 0.2), (heat, 5.0)):
        assert torch.equal(diffuse(small_graph).to_dense(), diffuse(small_graph, number).to_dense())
        assert diffuse(star).crow_indices().diff().tolist() == [64] * 100  # each node reaches 100


@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize(("diffuse", "number"), [(personalized_pagerank, 0.2), (heat, 5.0)])
def test_the_largest_entries_and_the_row_sums_are_kept(diffuse, number, is_directed, small_graph):
    graph = one_way(small_graph) if is_directed else small_graph
    full, cut = exact(diffuse, graph, number), diffuse(graph, number, keep=8)
    torch.sparse_csr_tensor(  # raises unless it is valid, with columns ascending in each row
        cut.crow_indices(), cut.col_indices(), cut.values(), size=cut.shape, check_invariants=True
    )
    count = cut.crow_indices().diff()
    assert count.max() == 8
    assert torch.equal(count, (full > 0).sum(1).clamp(max=8))  # a node may reach fewer
    dense = cut.to_dense().double()
    # The series is computed to 1e-5, in float32.
    assert torch.allclose(dense.sum(1), full.sum(1), rtol=0, atol=1e-4)
    largest = full.topk(8).values
    scale = full.sum(1) / largest.sum(1)
    # Compared as sorted values, because equal entries may swap; scaled by up to n / 8, about 8.
    assert torch.allclose(dense.topk(8).values, largest * scale[:, None], rtol=0, atol=2e-4)
    # Each entry is the scaled entry of the full matrix at the same position.
    kept = dense > 0
    assert torch.allclose(dense[kept], (full * scale[:, None])[kept], rtol=0, atol=2e-4)


@pytest.mark.parametrize("diffuse", BOTH)
def test_the_row_of_an_isolated_node_is_that_of_the_identity(diffuse, small_graph):
    node = small_graph.n - 1
    assert not (small_graph.edge_index == node).any()
    row = diffuse(small_graph, keep=5).to_dense()[node]
    expected = torch.zeros(small_graph.n)
    expected[node] = 1
    assert torch.allclose(row, expected, rtol=0, atol=1e-6)  # the coefficients sum to 1, in float32
    assert row.count_nonzero() == 1


@pytest.mark.parametrize("diffuse", BOTH)
def test_the_diffusion_of_a_graph_without_edges_is_the_identity(diffuse):
    graph = Graph(torch.ones(3, 1), torch.empty(2, 0, dtype=torch.int64))
    # The coefficients sum to 1, in float32.
    assert torch.allclose(diffuse(graph).to_dense(), torch.eye(3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 61])
@pytest.mark.parametrize("diffuse", BOTH)
def test_small_blocks_give_the_same_result(diffuse, rows, small_graph, monkeypatch):
    whole = diffuse(small_graph, keep=small_graph.n)
    cut = diffuse(small_graph, keep=6)
    used = []
    series = diffusion._series

    def counted(spread, nodes, coefficients):
        used.append(len(nodes))
        return series(spread, nodes, coefficients)

    monkeypatch.setattr(diffusion, "_series", counted)
    monkeypatch.setattr(diffusion, "BLOCK_BYTES", 4 * small_graph.n * rows + 3)
    in_blocks = diffuse(small_graph, keep=small_graph.n)
    assert max(used) == rows
    assert sum(used) == small_graph.n
    assert torch.allclose(in_blocks.to_dense(), whole.to_dense(), rtol=0, atol=1e-6)  # sums in another order
    # Compared as sorted values, because equal entries may swap; scaled by up to n / 6, about 10.
    cut_in_blocks = diffuse(small_graph, keep=6)
    assert torch.allclose(cut_in_blocks.values().sort().values, cut.values().sort().values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("diffuse", BOTH)
def test_nearer_nodes_have_larger_entries(diffuse):
    path = Graph(torch.ones(9, 1), torch.tensor(list(nx.path_graph(9).edges)).T)
    middle = diffuse(path, keep=3).to_dense()[4]
    assert middle.nonzero().flatten().tolist() == [3, 4, 5]
    assert middle[4] > middle[3]
    assert middle[3] == pytest.approx(middle[5].item(), rel=1e-5)  # float32


@pytest.mark.parametrize("diffuse", BOTH)
def test_the_graph_is_not_changed(diffuse, small_graph):
    x, edges = small_graph.x.clone(), small_graph.edge_index.clone()
    diffuse(small_graph, keep=4)
    assert torch.equal(small_graph.x, x)
    assert torch.equal(small_graph.edge_index, edges)


def test_invalid_arguments_are_refused(small_graph):
    for alpha in (0.0, -0.2, 1.1, float("nan")):
        with pytest.raises(UserError, match="alpha"):
            personalized_pagerank(small_graph, alpha)
    for time in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match="time"):
            heat(small_graph, time)
    for too_long in (lambda: personalized_pagerank(small_graph, 1e-9), lambda: heat(small_graph, 1e9)):
        with pytest.raises(UserError, match="more than 20,000 terms; use a larger alpha or a shorter time"):
            too_long()
    for diffuse in BOTH:
        with pytest.raises(UserError, match="at least 1 entry per row, not 0"):
            diffuse(small_graph, keep=0)
