"""Random walks: by hand, against the transition probabilities, and the Triton kernels against the references."""

import pytest
import torch

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.walks import MAX_TRIES, REJECT_ALL, biased_walks, tries_needed, uniform_walks, walk_graph
from afgrl.ops.walks.reference import _slot, biased_walks_reference, uniform_walks_reference
from tests.conftest import communities, weighted

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def graph_of(edges, n, *, directed=False):
    return Graph(torch.ones(n, 1), torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T, directed=directed)


@pytest.fixture
def kite():
    """A triangle 0-1-2, a square 0-2-3-4 on it and a tail 4-5: all three cases of node2vec, with degrees 1 to 3."""
    return graph_of([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (0, 4), (4, 5)], 6)


def walks_of(kind, graph, start, length, rng):
    walkable = walk_graph(graph)
    if kind == "uniform":
        return uniform_walks(walkable, start, length, rng)
    return biased_walks(walkable, start, length, 0.5, 2, rng)


def second_order(graph, p, q):
    """node2vec's transition probabilities from each edge (previous, current), as written in the paper: [n, n, n]."""
    linked = torch.zeros(graph.n, graph.n, dtype=torch.float64)
    linked[tuple(graph.edge_index)] = 1
    chance = torch.zeros(graph.n, graph.n, graph.n, dtype=torch.float64)
    for previous, current in graph.edge_index.T.tolist():
        for following in range(graph.n):
            weight = 1 / p if following == previous else 1 if linked[previous, following] else 1 / q
            chance[previous, current, following] = weight * linked[current, following]
    return chance / chance.sum(2, keepdim=True).clamp(min=1e-300)


def counted(walk, n):
    """The number of times each triple of nodes occurs in sequence: [n, n, n]."""
    triple = (walk[:, :-2] * n + walk[:, 1:-1]) * n + walk[:, 2:]
    return torch.bincount(triple.flatten(), minlength=n**3).view(n, n, n).double()


def assert_binomial(counts, chance, *, off=0.0):
    """Counts along the last dimension are draws with the probabilities ``chance``, up to an error ``off``.

    Five standard deviations: among a few hundred numbers, a larger deviation occurs in one of some thousand tests, and
    the seed is fixed.
    """
    total = counts.sum(-1, keepdim=True)
    seen = total.squeeze(-1) > 0
    error = (chance * (1 - chance) * total).sqrt()
    assert ((counts - total * chance).abs() <= 5 * error + off * total + 1e-9)[seen].all()


def test_the_walk_graph_by_hand():
    walkable = walk_graph(graph_of([(3, 1), (0, 3)], 5))
    assert walkable.adjacency.indptr.tolist() == [0, 1, 2, 2, 4, 4]
    assert walkable.adjacency.indices.tolist() == [3, 3, 0, 1]
    assert walkable.keys.tolist() == [3, 8, 15, 16]
    assert walkable.cumulative is None
    assert walkable.degree.tolist() == [1, 1, 0, 2, 0]
    source, target = torch.tensor([3, 3, 4, 0, 2]), torch.tensor([1, 4, 4, 3, 0])
    assert walkable.find(source, target)[1].tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("kind", ["uniform", "biased"])
def test_steps_are_edges_and_isolated_nodes_stay(kind, rng):
    graph = communities()  # its last two nodes are isolated
    start = torch.arange(graph.n).repeat(3)
    walk = walks_of(kind, graph, start, 17, rng)
    assert walk.shape == (len(start), 17)
    assert walk.dtype == torch.int64
    assert torch.equal(walk[:, 0], start)
    linked = torch.zeros(graph.n, graph.n, dtype=torch.bool)
    linked[tuple(graph.edge_index)] = True
    alone = ~linked.any(1)
    assert alone.sum() == graph.n_isolated > 0
    assert linked[walk[:, :-1], walk[:, 1:]][~alone[start]].all()
    assert (walk == start.unsqueeze(1))[alone[start]].all()


@pytest.mark.parametrize("kind", ["uniform", "biased"])
@pytest.mark.parametrize(("n", "edges", "expected"), [(3, [], [0, 0, 0, 0]), (2, [(0, 1)], [0, 1, 0, 1])])
def test_walks_without_a_choice(kind, n, edges, expected, rng):
    graph = graph_of(edges, n)
    assert walks_of(kind, graph, torch.tensor([0]), 4, rng).tolist() == [expected]
    assert walks_of(kind, graph, torch.tensor([n - 1]), 1, rng).tolist() == [[n - 1]]
    assert walks_of(kind, graph, torch.empty(0, dtype=torch.int64), 4, rng).shape == (0, 4)


@pytest.mark.parametrize("kind", ["uniform", "biased"])
def test_directed_edges_are_followed_in_one_direction(kind, rng):
    graph = graph_of([(0, 1), (1, 2), (2, 0), (2, 3)], 4, directed=True)  # no edge leaves node 3
    walk = walks_of(kind, graph, torch.zeros(50, dtype=torch.int64), 12, rng)
    steps = set(zip(walk[:, :-1].flatten().tolist(), walk[:, 1:].flatten().tolist(), strict=True))
    assert steps == {(0, 1), (1, 2), (2, 0), (2, 3), (3, 3)}


@pytest.mark.parametrize("kind", ["uniform", "biased"])
def test_the_same_generator_state_gives_the_same_walks(kind):
    graph, start = communities(), torch.arange(40)
    first, again, other = (walks_of(kind, graph, start, 20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_visits_are_proportional_to_the_degree(kite, rng):
    walk = uniform_walks(walk_graph(kite), torch.zeros(2000, dtype=torch.int64), 500, rng)[:, 100:]
    share = torch.bincount(walk.flatten(), minlength=6) / walk.numel()
    # A kite mixes within some ten steps, so 800,000 visits are worth at least 80,000 independent ones: three standard
    # deviations of a share of 1/4 are then 0.005.
    assert torch.allclose(share, walk_graph(kite).degree / kite.edge_index.shape[1], atol=0.005)


@pytest.mark.parametrize(("p", "q"), [(0.25, 4), (4, 0.25), (1, 1), (0.5, 0.5), (100, 1), (0.01, 2)])
def test_second_order_transitions(kite, p, q, rng):
    walk = biased_walks(walk_graph(kite), torch.arange(6).repeat(1000), 30, p, q, rng)
    assert_binomial(counted(walk, 6), second_order(kite, p, q), off=REJECT_ALL)


def test_second_order_transitions_of_larger_walk_graph(rng):
    graph = communities(n_groups=2, size=8, n_isolated=0)
    walk = biased_walks(walk_graph(graph), torch.arange(16).repeat(500), 30, 0.5, 4, rng)
    assert_binomial(counted(walk, 16), second_order(graph, 0.5, 4), off=REJECT_ALL)


@pytest.mark.parametrize("q", [0.25, 4])
def test_first_step_is_uniform(kite, q, rng):
    walk = biased_walks(walk_graph(kite), torch.full((20_000,), 2), 2, 0.25, q, rng)
    assert_binomial(torch.bincount(walk[:, 1], minlength=6).double(), torch.tensor([1, 1, 0, 1, 0, 0]).double() / 3)


def test_slots_are_clamped_to_the_neighbors():
    assert _slot(torch.tensor([0.0, 4.9, 5.0, 0.5, -0.5]), torch.tensor([5, 5, 5, 0, 1])).tolist() == [0, 4, 4, 0, 0]


def test_unbiased_walks_are_uniform(kite, rng):
    walkable, start = walk_graph(kite), torch.arange(6).repeat(2000)
    linked = torch.zeros(6, 6, dtype=torch.float64)
    linked[tuple(kite.edge_index)] = 1
    for walk in (uniform_walks(walkable, start, 30, rng), biased_walks(walkable, start, 30, 1, 1, rng, tries=1)):
        assert_binomial(counted(walk, 6), (linked / linked.sum(1, keepdim=True)).expand(6, 6, 6))


def test_one_proposal_per_step_is_not_enough(kite, rng):
    walk = biased_walks(walk_graph(kite), torch.arange(6).repeat(1000), 30, 0.25, 4, rng, tries=1)
    with pytest.raises(AssertionError):
        assert_binomial(counted(walk, 6), second_order(kite, 0.25, 4), off=REJECT_ALL)


def test_enough_proposals_are_drawn():
    assert tries_needed(1) == 1
    for q in (0.25, 4, 0.5, 2, 1.01):
        assert (1 - min(q, 1 / q)) ** tries_needed(q) <= REJECT_ALL
    assert tries_needed(1e9) == tries_needed(1e-18) == MAX_TRIES


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, -1), (float("nan"), 1)])
def test_p_and_q_must_be_positive(kite, p, q, rng):
    with pytest.raises(UserError, match="must be above 0"):
        biased_walks(walk_graph(kite), torch.tensor([0]), 3, p, q, rng)


@needs_gpu
@pytest.mark.parametrize("kind", ["uniform", "biased"])
def test_walks_can_be_captured_and_each_replay_draws_again(kind):
    graph, rng = communities().to("cuda"), torch.Generator("cuda").manual_seed(0)
    start = torch.arange(graph.n, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        walks_of(kind, graph, start, 9, rng)
        captured = torch.cuda.CUDAGraph()
        captured.register_generator_state(rng)
        with torch.cuda.graph(captured, stream=stream):
            walk = walks_of(kind, graph, start, 9, rng)
        drawn = []
        for _ in range(2):
            captured.replay()
            drawn.append(walk.clone())
    torch.cuda.synchronize()
    linked = torch.eye(graph.n, dtype=torch.bool, device="cuda")
    linked[tuple(graph.edge_index)] = True
    assert not torch.equal(*drawn)
    for walk in drawn:
        assert torch.equal(walk[:, 0], start)
        assert linked[walk[:, :-1], walk[:, 1:]].all()


@pytest.mark.parametrize("graph", [communities(size=30), Graph(torch.eye(5), torch.tensor([[0, 1], [1, 2]]))])
def test_the_kernels_equal_the_references(graph, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.walks.triton import biased_walks_triton, uniform_walks_triton

    near = walk_graph(graph.to(DEVICE))
    start = torch.arange(graph.n, device=DEVICE)
    draws = torch.rand(11, graph.n, generator=rng).to(DEVICE)
    assert torch.equal(uniform_walks_triton(near, start, draws), uniform_walks_reference(near, start, draws))
    for p, q, tries in ((1.0, 1.0, 1), (0.25, 4.0, 25), (4.0, 0.25, 7)):
        draws = torch.rand(11, 2, tries, graph.n, generator=rng).to(DEVICE)
        ours, theirs = biased_walks_triton(near, start, draws, p, q), biased_walks_reference(near, start, draws, p, q)
        # A point on a boundary may be rounded to either side, which is rare.
        assert (ours == theirs).all(1).float().mean() > 0.97


def test_steps_are_proportional_to_edge_weights(rng):
    graph = weighted(communities(n_isolated=1))
    adjacency = torch.zeros(graph.n, graph.n)
    adjacency[tuple(graph.edge_index)] = graph.edge_weight
    walkable, start = walk_graph(graph), torch.zeros(200_000, dtype=torch.int64)
    step = uniform_walks(walkable, start, 2, rng)[:, 1]
    assert torch.allclose(
        torch.bincount(step, minlength=graph.n) / len(start), adjacency[0] / adjacency[0].sum(), atol=5e-3
    )
    p, q = 0.25, 4.0
    walks = biased_walks(walkable, start, 3, p, q, rng)
    middle = int(graph.edge_index[1, 0])
    there = walks[walks[:, 1] == middle, 2]
    bias = torch.where(adjacency[0] > 0, 1.0, 1 / q)
    bias[0] = 1 / p
    expected = adjacency[middle] * bias
    found = torch.bincount(there, minlength=graph.n) / len(there)
    assert torch.allclose(found, expected / expected.sum(), atol=0.02)
    lonely = torch.full((5,), graph.n - 1)
    for walks in (uniform_walks(walkable, lonely, 3, rng), biased_walks(walkable, lonely, 3, p, q, rng)):
        assert (walks == graph.n - 1).all()
