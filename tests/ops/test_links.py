"""Messages along links, and rows looked up: against dense algebra, and the kernels against that."""

import pytest
import torch

from afgrl.graph import Graph
from afgrl.ops import edge_places, gather, gcn_weights, links, links_of, lookup, smoothing
from afgrl.ops.links import PIECE, Pieces, pieces
from tests.conftest import communities, weighted


def dense(found, weight):
    matrix = torch.zeros(found.n, found.n)
    matrix[found.target, found.source] = weight
    return matrix


def star(n=200):
    return Graph(torch.eye(n), torch.stack([torch.zeros(n - 1, dtype=torch.int64), torch.arange(1, n)]))


def test_weights_of_all_links_are_those_of_smoothing(small_graph):
    found = links(small_graph)
    assert torch.equal(dense(found, gcn_weights(found)), smoothing(small_graph).to_dense())


def test_weights_of_some_links_are_those_of_the_graph_without_the_others(small_graph, rng):
    found = links(small_graph)
    kept = (torch.rand(len(found.target), generator=rng) > 0.4) | found.is_loop
    adjacency = dense(found, kept.float())
    scale = adjacency.sum(1).rsqrt()
    expected = scale[:, None] * adjacency * scale
    assert torch.allclose(dense(found, gcn_weights(found, kept.float())), expected, atol=1e-7)


def test_weighted_links_are_those_of_weighted_smoothing(small_graph, rng):
    graph = weighted(small_graph)
    found = links(graph)
    assert torch.allclose(dense(found, gcn_weights(found)), smoothing(graph).to_dense(), atol=1e-7)
    kept = (torch.rand(len(found.target), generator=rng) > 0.4) | found.is_loop
    adjacency = dense(found, found.weight * kept)
    scale = adjacency.sum(1).rsqrt()
    expected = scale[:, None] * adjacency * scale
    assert torch.allclose(dense(found, gcn_weights(found, kept.float())), expected, atol=1e-7)


def test_every_link_knows_its_edge(small_graph):
    found = links(small_graph)
    place = edge_places(found, small_graph)
    assert torch.equal(place < 0, found.is_loop)
    source, target = small_graph.edge_index[:, place[place >= 0]]
    assert torch.equal(source, found.source[place >= 0])
    assert torch.equal(target, found.target[place >= 0])
    lonely = Graph(torch.ones(3, 1), torch.empty(2, 0))
    assert edge_places(links(lonely), lonely).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("graph", [communities(), star(), Graph(torch.ones(1, 2), torch.empty(2, 0))])
def test_gathering_is_a_product_and_its_gradient_the_transposed_one(graph, rng):
    found = links(graph)
    weight = torch.randn(len(found.target), generator=rng)  # not symmetric
    h = torch.randn(graph.n, 5, generator=rng, requires_grad=True)
    pull = torch.randn(graph.n, 5, generator=rng)
    out = gather(found, weight, h)
    (grad,) = torch.autograd.grad(out, h, pull)
    matrix = dense(found, weight)
    assert torch.allclose(out, matrix @ h, atol=1e-5)  # sums in another order
    assert torch.allclose(grad, matrix.T @ pull, atol=1e-5)


def test_links_of_a_matrix_that_is_not_symmetric(rng):
    matrix = torch.rand(9, 9, generator=rng)
    matrix[matrix < 0.6] = 0
    csr = matrix.to_sparse_csr()
    found = links_of(csr)
    h = torch.randn(9, 3, generator=rng, requires_grad=True)
    out = gather(found, csr.values(), h)
    assert torch.allclose(out, matrix @ h, atol=1e-5)
    (grad,) = torch.autograd.grad(out.sum(), h)
    assert torch.allclose(grad, matrix.T @ torch.ones(9, 3), atol=1e-5)


@pytest.mark.parametrize("width", [1, 33, 70])
@pytest.mark.parametrize("graph", [communities(), star(), Graph(torch.ones(1, 2), torch.empty(2, 0))])
def test_the_kernel_gathers_as_the_product(graph, width, rng):
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    from afgrl.ops.links_triton import gather_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = links(graph)
    weight = torch.randn(len(found.target), generator=rng)
    weight[::3] = 0  # dropped
    h = torch.randn(graph.n, width, generator=rng)
    matrix = dense(found, weight)
    forth, back = (Pieces(*(part.to(device) for part in cut)) for cut in (found.pieces, found.pieces_back))
    along, across = found.source.to(device), found.target_back.to(device)
    out = gather_kernel(graph.n, forth, along, weight.to(device), None, h.to(device)).cpu()
    order = found.order_back.to(device)
    out_back = gather_kernel(graph.n, back, across, weight.to(device), order, h.to(device)).cpu()
    assert torch.allclose(out, matrix @ h, atol=1e-5)  # sums in another order
    assert torch.allclose(out_back, matrix.T @ h, atol=1e-5)


def test_long_rows_are_cut_into_pieces():
    cut = pieces(torch.tensor([0, 3, 3, 3 + 2 * PIECE + 1]))
    assert cut.first.tolist() == [0, 3, 3, 3 + PIECE, 3 + 2 * PIECE]
    assert cut.last.tolist() == [3, 3, 3 + PIECE, 3 + 2 * PIECE, 3 + 2 * PIECE + 1]
    assert cut.to.tolist() == [0, 1, 3, 4, 5]
    assert (cut.parted.tolist(), cut.begin.tolist()) == ([2], [3, 6])


def test_looked_up_rows_give_their_gradients_back(rng):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours, theirs = (torch.randn(7, 3, generator=rng).to(device) for _ in range(2))
    theirs.copy_(ours)
    index = torch.tensor([[0, 3, 3], [6, 0, 3]], device=device)  # some twice, some never
    pull = torch.randn(2, 3, 3, generator=rng).to(device)
    for table in (ours.requires_grad_(), theirs.requires_grad_()):
        rows = lookup(table, index) if table is ours else table[index]
        (rows * pull).sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)
