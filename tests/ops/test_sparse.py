"""SparseMatrix and spmm: against dense algebra, and the Triton kernel against that."""

from dataclasses import replace

import pytest
import torch

from afgrl.errors import AfgrlError
from afgrl.graph import Graph
from afgrl.ops import sparse
from afgrl.ops.propagation.adjacency import gcn_adjacency
from afgrl.ops.sparse import csr_multiplier, spmm
from afgrl.ops.sparse.matrix import SEGMENT, SparseMatrix, row_split, whole_rows
from tests.conftest import communities


def dense(matrix, values):
    table = torch.zeros(matrix.shape)
    table[matrix.rows, matrix.indices] = values
    return table


def star(n=200):
    return Graph(torch.eye(n), torch.stack([torch.zeros(n - 1, dtype=torch.int64), torch.arange(1, n)]))


def sparse_table(n, m, rng):
    """Not square and not symmetric, with an empty row and an empty column."""
    table = torch.rand(n, m, generator=rng)
    table[table < 0.6] = 0
    table[1], table[:, 2] = 0, 0
    return table


GRAPHS = [communities(), star(), Graph(torch.ones(1, 2), torch.empty(2, 0))]


@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
def test_matrix_by_hand(index_dtype):
    table = torch.tensor([[0.0, 5.0, 6.0], [7.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 8.0, 0.0]])
    matrix = SparseMatrix.from_csr(table.to_sparse_csr(), index_dtype=index_dtype)
    assert (matrix.shape, matrix.nnz) == ((4, 3), 4)
    assert matrix.indptr.tolist() == [0, 2, 3, 3, 4]
    assert matrix.rows.tolist() == [0, 0, 1, 3]
    assert matrix.indices.tolist() == [1, 2, 0, 1]
    assert matrix.explicit_values.tolist() == [5, 6, 7, 8]
    assert matrix.indptr_t.tolist() == [0, 1, 3, 4]
    assert matrix.indices_t.tolist() == [1, 0, 3, 0]
    assert matrix.order_t.tolist() == [2, 0, 3, 1]
    positions = (matrix.indptr, matrix.rows, matrix.indices, matrix.indptr_t, matrix.indices_t, matrix.order_t)
    assert {part.dtype for part in positions} == {index_dtype}


def test_without_values_all_entries_are_one():
    matrix = SparseMatrix.from_coo(torch.tensor([0, 1]), torch.tensor([1, 1]), (2, 2))
    assert matrix.values is None
    assert torch.equal(spmm(matrix, torch.tensor([[1.0], [2.0]])), torch.tensor([[2.0], [2.0]]))


def test_entries_on_the_diagonal():
    matrix = SparseMatrix.from_coo(torch.tensor([0, 0, 2]), torch.tensor([0, 2, 2]), (3, 3))
    assert matrix.on_diagonal.tolist() == [True, False, True]


def test_copying_replaces_all_entries_in_place(rng):
    old, new = sparse_table(6, 5, rng), torch.zeros(6, 5)
    nnz = int((old > 0).sum())
    new.view(-1)[:nnz] = torch.arange(1.0, nnz + 1)
    matrix, other = (SparseMatrix.from_csr(table.to_sparse_csr()) for table in (old, new))
    addresses = [part.data_ptr() for part in matrix._tensors()]
    matrix.copy_(other)
    assert [part.data_ptr() for part in matrix._tensors()] == addresses
    h, g = torch.randn(5, 2, generator=rng, requires_grad=True), torch.randn(6, 2, generator=rng)
    product = spmm(matrix, h)
    assert torch.allclose(product, new @ h, atol=1e-5)
    assert torch.allclose(torch.autograd.grad(product, h, g)[0], new.T @ g, atol=1e-5)
    matrix.set_values(2 * other.explicit_values)
    assert torch.allclose(spmm(matrix, h), 2 * new @ h, atol=1e-5)


def test_a_matrix_with_split_rows_cannot_be_copied_over():
    matrix = gcn_adjacency(star(3))
    with pytest.raises(AssertionError, match="number of segments"):
        matrix.copy_(matrix)


@pytest.mark.parametrize("graph", GRAPHS)
def test_product_and_gradient_equal_dense_algebra(graph, rng):
    adjacency = gcn_adjacency(graph)
    values = torch.randn(adjacency.nnz, generator=rng)  # not symmetric
    h = torch.randn(graph.n, 5, generator=rng, requires_grad=True)
    g = torch.randn(graph.n, 5, generator=rng)
    product = spmm(adjacency, h, values)
    (grad,) = torch.autograd.grad(product, h, g)
    table = dense(adjacency, values)
    assert torch.allclose(product, table @ h, atol=1e-5)  # sums in another order
    assert torch.allclose(grad, table.T @ g, atol=1e-5)


def test_a_matrix_need_not_be_square(rng):
    table = sparse_table(9, 7, rng)
    matrix = SparseMatrix.from_csr(table.to_sparse_csr())
    h = torch.randn(7, 3, generator=rng, requires_grad=True)
    product = spmm(matrix, h)
    assert torch.allclose(product, table @ h, atol=1e-5)
    (grad,) = torch.autograd.grad(product.sum(), h)
    assert torch.allclose(grad, table.T @ torch.ones(9, 3), atol=1e-5)


def test_the_gradient_is_differentiable(rng):
    table = sparse_table(6, 5, rng)
    h = torch.randn(5, 3, generator=rng, requires_grad=True)
    product = spmm(SparseMatrix.from_csr(table.to_sparse_csr()), h)
    (first,) = torch.autograd.grad(product.pow(3).sum(), h, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), h)
    expected = table.T @ (6 * (table @ h.detach()) * table.sum(1, keepdim=True))
    assert torch.allclose(second, expected, atol=1e-3)


@pytest.mark.parametrize("shape", [(3, 2), (4,)])
def test_shapes_that_do_not_fit_are_refused(shape):
    matrix = SparseMatrix.from_csr(torch.ones(3, 4).to_sparse_csr())
    with pytest.raises(AfgrlError, match=r"sparse matrix \(3, 4\) cannot be multiplied with a table \("):
        spmm(matrix, torch.ones(shape))


@pytest.mark.parametrize("width", [1, 33, 70])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("split", [True, False])
def test_the_kernel_equals_dense_algebra(graph, width, split, rng):
    pytest.importorskip("triton", reason="Triton supports Linux only")
    from afgrl.ops.sparse.triton import spmm_triton

    device = "cuda" if torch.cuda.is_available() else "cpu"
    adjacency = gcn_adjacency(graph.to(device))
    if not split:
        adjacency = replace(adjacency, row_split=None, row_split_t=None)
    values = torch.randn(adjacency.nnz, generator=rng)
    values[::3] = 0  # dropped edges
    h = torch.randn(graph.n, width, generator=rng)
    table = dense(gcn_adjacency(graph), values)
    product, transposed = (spmm_triton(adjacency, h.to(device), values.to(device), way).cpu() for way in (False, True))
    assert torch.allclose(product, table @ h, atol=1e-5)  # sums in another order
    assert torch.allclose(transposed, table.T @ h, atol=1e-5)


@pytest.mark.parametrize("version", ["auto", "reference", "kernels"])
def test_the_product_of_a_csr_tensor_equals_dense_algebra(version, rng, monkeypatch):
    if version == "kernels":
        pytest.importorskip("triton", reason="Triton supports Linux only")
        monkeypatch.setattr(sparse, "takes_kernels", lambda x: True)
    else:
        monkeypatch.setenv("AFGRL_OPS", version)
    table = sparse_table(9, 3 * SEGMENT, rng)  # rows of several segments
    h = torch.randn(3 * SEGMENT, 33, generator=rng)
    multiply = csr_multiplier(table.to_sparse_csr())
    assert torch.allclose(multiply(h), table @ h, atol=1e-4)  # float32 sums of up to 77 terms, in another order
    assert torch.allclose(multiply(h[:, 4:9]), table @ h[:, 4:9], atol=1e-4)  # columns that are not contiguous


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU; on a CPU the order of sums is fixed")
def test_the_product_of_a_csr_tensor_has_the_same_bits_in_every_call_on_a_gpu(rng):
    table = sparse_table(500, 700, rng).cuda().to_sparse_csr()
    h = torch.randn(700, 300, generator=rng).cuda()
    first = csr_multiplier(table)(h)
    assert all(torch.equal(csr_multiplier(table)(h), first) for _ in range(50))


def test_long_rows_are_split_into_segments():
    split = row_split(torch.tensor([0, 3, 3, 3 + 2 * SEGMENT + 1]))
    assert split.begin.tolist() == [0, 3, 3, 3 + SEGMENT, 3 + 2 * SEGMENT]
    assert split.end.tolist() == [3, 3, 3 + SEGMENT, 3 + 2 * SEGMENT, 3 + 2 * SEGMENT + 1]
    assert split.output.tolist() == [0, 1, 3, 4, 5]
    assert (split.long_rows.tolist(), split.partial_begin.tolist()) == ([2], [3, 6])


def test_whole_rows_have_one_segment_each():
    split = whole_rows(torch.tensor([0, 3, 3, 3 + 2 * SEGMENT]))
    assert split.begin.tolist() == [0, 3, 3]
    assert split.end.tolist() == [3, 3, 3 + 2 * SEGMENT]
    assert split.output.tolist() == [0, 1, 2]
    assert len(split.long_rows) == 0


def test_a_product_with_the_transpose(rng):
    dense = torch.randn(6, 4, generator=rng) * (torch.rand(6, 4, generator=rng) < 0.5)
    matrix, h = SparseMatrix.from_csr(dense.to_sparse_csr()), torch.randn(6, 3, generator=rng)
    assert torch.allclose(spmm(matrix, h, transposed=True), dense.T @ h, atol=1e-6)
    with pytest.raises(AfgrlError, match=r"A sparse matrix \(4, 6\) cannot"):
        spmm(matrix, h[:4], transposed=True)
