"""Products of S with dense columns: against the products in float64."""

import pytest
import torch

from afgrl.ops import storage
from afgrl.ops.propagation import columns
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import hops, pagerank_average
from tests.conftest import communities


@pytest.fixture
def table(rng):
    graph = communities()
    return torch.randn(graph.n, 150, generator=rng), gcn_norm(graph)  # two blocks of 64 columns and a rest


@pytest.mark.parametrize("version", ["auto", "reference"])
def test_hops_equal_the_products_in_float64(table, version, monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", version)
    x, adjacency = table
    expected = x.double()
    for found in hops(x, adjacency, 3):
        expected = adjacency.to_dense().double() @ expected
        assert torch.allclose(found.double(), expected, atol=1e-6)  # float32 sums of about ten terms


def test_hops_in_files_have_the_same_bits_as_in_memory(table, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "SMALLEST", 1)
    monkeypatch.setattr(storage, "BLOCK_ROWS", 7)
    x, adjacency = table
    products = []
    multiply = columns.product_rows
    monkeypatch.setattr(columns, "product_rows", lambda *given: products.append(given[-1]) or multiply(*given))
    in_memory = hops(x[:, :90], adjacency, 3)
    assert not products
    with storage.tables_in_files(tmp_path):
        in_files = hops(x[:, :90], adjacency, 3)
    assert len(products) == 3 * -(-len(x) // 7)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(in_files, in_memory, strict=True))


@pytest.mark.parametrize("version", ["auto", "reference"])
def test_the_pagerank_average_equals_its_formula_in_float64(table, version, monkeypatch):
    monkeypatch.setenv("AFGRL_OPS", version)
    v, adjacency = table
    before = v.clone()
    expected = v.double()
    for _ in range(7):
        expected = 0.7 * adjacency.to_dense().double() @ expected + 0.3 * v.double()
    assert torch.allclose(pagerank_average(v, adjacency, 0.3, 7).double(), expected, atol=1e-6)
    assert torch.equal(v, before)


def test_no_hops_and_no_steps(table):
    x, adjacency = table
    assert hops(x, adjacency, 0) == []
    assert torch.equal(pagerank_average(x, adjacency, n_steps=0), x)
