import copy
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl import Dataset, Graph, UserError
from afgrl.csr import csr_from_scipy
from afgrl.graph import as_text

PATH = torch.tensor([[0, 1], [1, 2]])  # 0 – 1 – 2
EYE = torch.eye(3)


def test_edges_become_undirected_sorted_and_unique_without_self_loops():
    graph = Graph(EYE, torch.tensor([[2, 1, 0, 0, 1, 1], [1, 2, 1, 1, 1, 2]]))
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.n_edges == 2


def test_a_directed_graph_keeps_directions():
    graph = Graph(EYE, torch.tensor([[2, 0, 2], [1, 1, 1]]), directed=True)
    assert graph.edge_index.tolist() == [[0, 2], [1, 1]]
    assert graph.n_edges == 2


def weights(graph):
    return dict(zip(zip(*graph.edge_index.tolist(), strict=True), graph.edge_weight.tolist(), strict=True))


def test_weights_are_added_and_are_the_mean_of_both_directions():
    edges = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 2, 2]])
    graph = Graph(EYE, edges, edge_weight=[1.0, 2.0, 5.0, 3.0, 9.0])
    assert weights(graph) == {(0, 1): 4.0, (1, 0): 4.0, (1, 2): 1.5, (2, 1): 1.5}
    assert weights(Graph(EYE, edges, directed=True, edge_weight=[1.0, 2.0, 5.0, 3.0, 9.0])) == {
        (0, 1): 3.0, (1, 0): 5.0, (1, 2): 3.0
    }  # fmt: skip
    again = graph.to("cpu")
    assert torch.equal(again.edge_weight, graph.edge_weight)
    assert again.fingerprint == graph.fingerprint != Graph(EYE, edges).fingerprint
    assert "2 weighted edges" in repr(graph)


def test_neighbors_with_low_weights_count_little_for_the_mean_degree():
    star = torch.tensor([[0, 0, 0], [1, 2, 3]])
    plain, heavy = Graph(torch.eye(4), star), Graph(torch.eye(4), star, edge_weight=[1.0, 1.0, 1e-6])
    assert plain.mean_degree == 6 / 4
    assert heavy.mean_degree == pytest.approx(5 / 4, abs=1e-5)  # two for the hub, one for each leaf
    assert Graph(torch.eye(5), star, edge_weight=[1.0, 2.0, 3.0]).mean_degree < 6 / 5


def test_equal_weights_are_no_weights():
    assert Graph(EYE, PATH, edge_weight=[7.0, 7.0]).edge_weight is None
    assert Graph(EYE, torch.empty(2, 0), edge_weight=torch.empty(0)).edge_weight is None


def test_weights_are_added_before_they_are_compared():
    twice = torch.tensor([[0, 0, 1], [1, 1, 2]])
    assert weights(Graph(EYE, twice, edge_weight=[1.0, 1, 1])) == {(0, 1): 1, (1, 0): 1, (1, 2): 0.5, (2, 1): 0.5}
    assert weights(Graph(EYE, twice, directed=True, edge_weight=[1.0, 1, 1])) == {(0, 1): 2, (1, 2): 1}
    for parts in ([0.5, 0.5, 1.0], [0.1, 0.2, 0.3]):
        assert Graph(EYE, twice, edge_weight=parts).edge_weight is None
        assert Graph(EYE, twice, directed=True, edge_weight=parts).edge_weight is None
    assert Graph(EYE, torch.tensor([[0, 0, 1, 2], [1, 1, 2, 1]]), edge_weight=[1.0] * 4).edge_weight is None
    assert Graph(EYE, twice).edge_weight is None


@pytest.mark.parametrize("wrong", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, 1e300]])
def test_invalid_weights_are_an_error(wrong):
    with pytest.raises(UserError, match=r"above 0|edge weights have shape"):
        Graph(EYE, PATH, edge_weight=wrong)


def test_features_become_float32_and_stay_sparse():
    assert Graph(np.eye(3), PATH).x.dtype == torch.float32
    for sparse in (sp.csr_matrix(np.eye(3)), sp.coo_array(np.eye(3)), EYE.to_sparse(), EYE.to_sparse_csr()):
        graph = Graph(sparse, PATH)
        assert graph.x.layout == torch.sparse_csr
        assert torch.equal(graph.x.to_dense(), EYE)


def test_isolated_nodes_and_no_edges_are_valid():
    assert Graph(EYE, PATH[:, :1]).n_isolated == 1
    assert Graph(EYE, torch.empty(2, 0)).n_isolated == 3


def test_ids_are_the_users_own():
    assert Graph(EYE, PATH).ids.tolist() == [0, 1, 2]
    assert Graph(EYE, PATH, ids=["b", "a", "c"]).ids.tolist() == ["b", "a", "c"]
    assert Graph(EYE, PATH, ids=[0, (0, 1), "c"]).ids.tolist() == ["0", "(0, 1)", "c"]
    assert Graph(EYE, PATH, ids=[7, 8, 2**70]).ids.tolist() == ["7", "8", str(2**70)]
    assert Graph(EYE, PATH, ids=torch.tensor([7, 8, 9])).ids.tolist() == [7, 8, 9]
    assert Graph(EYE, PATH, ids=np.array([b"x", b"y", b"z"])).ids.tolist() == ["x", "y", "z"]


def test_arrays_of_another_byte_order_are_read():
    edges, weight, ids = PATH.numpy(), np.array([1.0, 2.0]), np.array([7, 8, 9])
    swapped = Graph(np.eye(3, dtype=">f4"), edges.astype(">i8"), ids.astype(">i8"), edge_weight=weight.astype(">f8"))
    graph = Graph(np.eye(3), edges, ids, edge_weight=weight.astype(np.longdouble))
    assert swapped.fingerprint == graph.fingerprint
    assert torch.equal(swapped.x, graph.x)
    assert (swapped.ids.tolist(), swapped.ids.dtype) == ([7, 8, 9], graph.ids.dtype)
    assert Graph(EYE, PATH, ids=np.array(["ä".encode(), b"y", b"z"])).ids.tolist() == ["ä", "y", "z"]


@pytest.mark.parametrize("x", [EYE, csr_from_scipy(np.eye(3))])
def test_a_deep_copy_is_independent(x):
    graph = Graph(x, PATH, ["a", "b", "c"], edge_weight=torch.tensor([1.0, 2.0]))
    copied = copy.deepcopy(Dataset("graph", graph)).graph
    assert copied.fingerprint == graph.fingerprint
    assert torch.equal(copied.x.to_dense(), graph.x.to_dense())
    assert copied.x.layout == graph.x.layout
    (copied.x.values() if copied.x.layout == torch.sparse_csr else copied.x).zero_()
    copied.ids[0] = "changed"
    assert torch.equal(graph.x.to_dense(), EYE)
    assert graph.ids[0] == "a"


def test_one_long_id_does_not_pad_the_others():
    n = 2000
    tracemalloc.start()
    ids = Graph(torch.ones(n, 1), torch.empty(2, 0), ids=["x" * 50_000, *map(str, range(n - 1))]).ids
    assert as_text(ids).tolist() == ids.tolist()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6  # a NumPy string array pads each id to the longest: 400 MB


def test_the_matrix_of_the_user_does_not_change():
    first = sp.csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2, 2, 2])), shape=(3, 3))
    second = sp.csr_array((np.array([20.0, 10.0]), first.indices, first.indptr), shape=(3, 3))
    assert Graph(first, PATH).x.to_dense()[0].tolist() == [2, 0, 1]
    assert second.toarray()[0].tolist() == [10, 0, 20]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([[1.0], [float("nan")]], PATH[:, :1]), r"NaN or infinite value\(s\), first in row 1"),
        (([[1.0], [float("inf")]], PATH[:, :1]), "NaN or infinite"),
        ((sp.csr_array([[1.0], [np.nan]]), PATH[:, :1]), "NaN or infinite"),
        ((EYE, torch.tensor([[0], [3]])), "refers to node 3, but the nodes are 0 to 2"),
        ((EYE, torch.tensor([[0], [-1]])), "refers to node -1"),
        ((EYE, torch.tensor([[0, 1, 2]])), r"shape \[2, e\]"),
        ((EYE, torch.tensor([[0.0], [1.0]])), "must be integers"),
        ((torch.ones(3), PATH), "must have shape"),
        ((torch.ones(0, 3), PATH), "empty"),
        ((torch.ones(3, 0), PATH), "no features"),
        ((np.array([["a"], ["b"], ["c"]]), PATH), "numbers"),
        ((EYE, PATH, ["a", "b"]), "3 nodes but 2 ids"),
        ((EYE, PATH, ["a", "b", "a"]), "'a' occurs 2 times"),
        ((EYE, PATH, 5), "must be a sequence with one id per node, not 5"),
        ((EYE, PATH, np.array(5)), "must be a sequence"),
        ((EYE, PATH, np.array([["a"], ["b"], ["c"]])), r"ids must have shape \[3\]"),
        ((EYE, [["a", "b"], ["b", "c"]]), "edges must be real numbers"),
        ((EYE, [[0, 1], [1]]), "edges must be real numbers"),
        ((1j * EYE, PATH), "real numbers"),
        ((sp.csr_array(1j * np.eye(3)), PATH), "real numbers"),
        ((EYE.to_sparse_csc(), PATH), "dense, COO or CSR"),
    ],
)
def test_invalid_input_is_an_error_of_one_sentence(arguments, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        Graph(*arguments)
    assert str(caught.value).count("\n") == 0


def edges_in_full_copies(edges, weight, n, directed):
    """What the constructor did before it saved memory, as an independent computation of the same bits."""
    no_loop = edges[0] != edges[1]
    edges, weight = edges[:, no_loop], None if weight is None else weight[no_loop].to(torch.float64)

    def summed(edges, weight):
        keys, place = torch.unique(edges[0] * n + edges[1], sorted=True, return_inverse=True)
        if weight is not None:
            weight = torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, weight)
            weight = None if bool((weight.float() == weight[:1].float()).all()) else weight
        return torch.stack([keys // n, keys % n]), weight

    edges, weight = summed(edges, weight)
    if not directed:
        edges, weight = torch.cat([edges, edges.flip(0)], dim=1), None if weight is None else weight.repeat(2) / 2
    edges, weight = summed(edges, weight)
    return edges, None if weight is None else weight.float()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["none", "random", "equal", "integer"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint32])
def test_edges_in_chunks_have_the_bits_of_full_copies(monkeypatch, directed, kind, dtype):
    monkeypatch.setattr("afgrl.graph.sorted_edges.CHUNK", 7)
    generator = torch.Generator().manual_seed(0)
    for n, e in ((2, 1), (3, 8), (9, 40), (50, 300)):
        edges = torch.randint(0, n, (2, e), generator=generator)
        weight = {
            "none": None, "random": torch.rand(e, generator=generator) + 0.01, "equal": torch.full((e,), 0.3),
            "integer": torch.randint(1, 4, (e,), generator=generator).float(),
        }[kind]  # fmt: skip
        graph = Graph(torch.ones(n, 1), edges.to(dtype), directed=directed, edge_weight=weight)
        expected = edges_in_full_copies(edges, weight, n, directed)
        assert torch.equal(graph.edge_index, expected[0])
        assert (graph.edge_weight is None) == (expected[1] is None)
        assert graph.edge_weight is None or torch.equal(graph.edge_weight, expected[1])


def test_edges_take_little_more_memory_than_the_result():
    n, e = 200_000, 4_000_000
    edges = np.random.default_rng(0).integers(0, n, (2, e), dtype=np.int32)
    tracemalloc.start()
    graph = Graph(torch.ones(n, 1), edges)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The result has 16 bytes for each direction, its sorted keys in one direction 4; chunks and the ids do not grow.
    assert peak < 21 * graph.edge_index.shape[1] + 64e6


def test_features_in_a_mapped_file_stay_there(tmp_path, recwarn):
    np.save(tmp_path / "x.npy", np.ones((5, 3), dtype=np.float32))
    for mode in ("r", "c"):
        mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
        graph = Graph(mapped, torch.tensor([[0], [1]]))
        assert graph.x.data_ptr() == mapped.ctypes.data
    assert not recwarn.list


def test_nan_is_found_in_any_part_of_the_features(monkeypatch):
    monkeypatch.setattr("afgrl.graph.CHECKED_VALUES", 4)
    x = torch.zeros(7, 2)
    x[5, 1], x[6, 0] = float("nan"), float("inf")
    with pytest.raises(UserError, match=r"2 NaN or infinite value\(s\), first in row 5"):
        Graph(x, PATH)


def test_a_moved_graph_keeps_its_values():
    graph = Graph(EYE, PATH, ids=["a", "b", "c"], edge_weight=[1.0, 2.0])
    moved = graph.to("meta")
    assert moved.x.device.type == moved.edge_index.device.type == moved.edge_weight.device.type == "meta"
    assert graph.x.device.type == "cpu"
    assert moved.ids is graph.ids
