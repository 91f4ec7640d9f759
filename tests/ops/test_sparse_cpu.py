"""Factored products on the CPU: by hand, against float64 and autograd, and their properties."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.errors import AfgrlError
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.sparse.cpu import COLUMNS, FactoredTable, _multiply, factor, factored_product


def table(n, f, density, seed=0):
    draw = np.random.default_rng(seed)
    return csr_from_scipy(sp.random_array((n, f), density=density, rng=draw, data_sampler=draw.normal))


def factors(*matrices):
    return tuple(map(factor, matrices))


def dense(*matrices):
    product = matrices[0].to_dense().double()
    for matrix in matrices[1:]:
        product = product @ matrix.to_dense().double()
    return product


def test_by_hand():
    x = csr_from_scipy(sp.csr_array([[0.0, 2.0], [0.0, 0.0], [1.0, -1.0]]))
    w = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    assert factored_product(factors(x), w).tolist() == [[6.0, 60.0], [0.0, 0.0], [-2.0, -20.0]]


@pytest.mark.parametrize("d", [1, 2, 63, COLUMNS, COLUMNS + 1, 3 * COLUMNS - 5])
@pytest.mark.parametrize(("n", "f"), [(1, 1), (1, 70), (70, 1), (65, 130)])
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
def test_product_and_gradient_equal_float64(rng, n, f, d, density):
    s, x = table(n, n, 0.5), table(n, f, density, seed=1)
    w = torch.randn(f, d, generator=rng).requires_grad_()
    product = factored_product(factors(s, x), w)
    gradient = torch.randn(n, d, generator=rng)
    product.backward(gradient)
    a = dense(s, x)
    # Sums of at most 130 terms of size 1, and of those again: float32 keeps four digits after the point.
    assert torch.allclose(product.double(), a @ w.detach().double(), rtol=1e-5, atol=1e-4)
    assert torch.allclose(w.grad.double(), a.T @ gradient.double(), rtol=1e-5, atol=1e-4)


def test_one_and_three_factors(rng):
    s, t, x = table(40, 30, 0.1), table(30, 50, 0.1, seed=1), table(50, 20, 0.1, seed=2)
    w = torch.randn(20, 9, generator=rng)
    assert torch.allclose(factored_product(factors(x), w).double(), dense(x) @ w.double(), atol=1e-5)
    assert torch.allclose(factored_product(factors(s, t, x), w).double(), dense(s, t, x) @ w.double(), atol=1e-5)


def test_blocks_stand_side_by_side(rng):
    s, x, y = table(30, 30, 0.1), table(30, 20, 0.2, seed=1), table(30, 10, 0.2, seed=2)
    blocks = FactoredTable((factors(s, x), factors(y)))
    w = torch.randn(30, 7, generator=rng)
    assert blocks.shape == (30, 30)
    assert torch.allclose((blocks @ w).double(), torch.cat([dense(s, x), dense(y)], 1) @ w.double(), atol=1e-5)


def test_the_gradient_equals_autograd_through_the_dense_product(rng):
    x = table(50, 30, 0.1)
    gradients = []
    for product in (lambda w: factored_product(factors(x), w), lambda w: x.to_dense() @ w):
        w = torch.linspace(-1, 1, 30 * 70).reshape(30, 70).requires_grad_()
        product(w).tanh().square().sum().backward()
        gradients.append(w.grad)
    assert torch.allclose(*gradients, atol=1e-5)


def test_the_gradient_is_differentiable(rng):
    x = table(20, 10, 0.3)
    w = torch.randn(10, 3, generator=rng).requires_grad_()
    (first,) = torch.autograd.grad(factored_product(factors(x), w).pow(3).sum(), w, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), w)
    a = dense(x)
    expected = a.T @ (6 * (a @ w.detach().double()) * a.sum(1, keepdim=True))
    assert torch.allclose(second.double(), expected, rtol=1e-4, atol=1e-4)


def test_the_gradient_equals_a_difference(rng):
    """The product is linear: a step of any size gives the slope, so the only error is rounding."""
    s, x = table(25, 25, 0.2), table(25, 15, 0.2, seed=1)
    a, g = factors(s, x), torch.randn(25, 5, generator=rng)
    w, step = (torch.randn(15, 5, generator=rng) for _ in range(2))
    w.requires_grad_()
    (factored_product(a, w) * g).sum().backward()
    difference = ((factored_product(a, w + step) - factored_product(a, w)) * g).sum()
    assert (w.grad * step).sum().item() == pytest.approx(difference.item(), rel=1e-4, abs=1e-4)


def test_empty_rows_and_columns_give_zeros(rng):
    x = table(30, 20, 0.3).to_dense()
    x[::3], x[:, ::4] = 0, 0
    w = torch.randn(20, 7, generator=rng).requires_grad_()
    product = factored_product(factors(x.to_sparse_csr()), w)
    product.sum().backward()
    assert not product[::3].any()
    assert not w.grad[::4].any()
    assert torch.allclose(product, x @ w, atol=1e-5)


def test_same_bits_with_any_number_of_threads(rng):
    a = factors(table(3000, 3000, 0.001), table(3000, 500, 0.02, seed=1))
    w = torch.randn(500, 100, generator=rng)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            results.append((_multiply(a, w, False), _multiply(a, w.new_ones(3000, 100), True)))
    finally:
        torch.set_num_threads(before)
    for forward, backward in results[1:]:
        assert torch.equal(forward, results[0][0])
        assert torch.equal(backward, results[0][1])


def test_a_gcn_layer_of_a_graph(small_graph, rng):
    s, x = gcn_norm(small_graph), small_graph.x.to_sparse_csr()
    w = torch.randn(small_graph.n_features, 6, generator=rng)
    assert torch.allclose(factored_product(factors(s, x), w), s.to_dense() @ small_graph.x @ w, atol=1e-5)


def test_weights_need_not_be_contiguous(rng):
    x, w = table(30, 20, 0.2), torch.randn(9, 20, generator=rng).T
    assert torch.equal(factored_product(factors(x), w), factored_product(factors(x), w.contiguous()))


@pytest.mark.parametrize("w", [torch.ones(5, 2), torch.ones(4)])
def test_shapes_that_do_not_fit_are_refused(w):
    with pytest.raises(AfgrlError, match=r"Matrices of shapes \(3, 4\), \(3, 4\), \(4, 2\) cannot be multiplied"):
        factored_product(factors(table(3, 4, 0.5), table(3, 4, 0.5)), torch.ones(4, 2))
    with pytest.raises(AfgrlError, match="cannot be multiplied"):
        factored_product(factors(table(3, 4, 0.5)), w)
