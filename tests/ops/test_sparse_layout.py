"""The dense-or-sparse policy, and row scaling in both layouts."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.ops.sparse.layout import (
    compact_features,
    csr_is_smaller,
    csr_product_is_faster,
    factored_product_is_faster,
    fastest_layout,
)
from afgrl.ops.sparse.rows import row_lengths, scale_rows, unit_rows, unit_sums


def with_nonzeros(n, f, nnz):
    x = torch.zeros(n * f)
    x[:nnz] = torch.arange(1.0, nnz + 1)
    return x.view(n, f)


@pytest.mark.parametrize(("nnz", "smaller"), [(0, True), (9, True), (10, False), (30, False)])
def test_csr_is_smaller_below_a_third_of_nonzeros(nnz, smaller):
    assert csr_is_smaller(nnz, (3, 10)) is smaller
    x = with_nonzeros(3, 10, nnz)
    for features in (x, x.numpy(), sp.csr_array(x.numpy())):
        compact = compact_features(features)
        assert (compact.layout == torch.sparse_csr) is smaller
        assert torch.equal(compact.to_dense(), x)


def test_compact_features_are_float32():
    for features in (np.eye(9), np.ones((2, 2))):
        assert compact_features(features).dtype == torch.float32


@pytest.mark.parametrize(("nnz", "faster"), [(2, True), (3, False)])
def test_the_csr_product_is_faster_up_to_two_percent_of_nonzeros(nnz, faster):
    assert csr_product_is_faster(nnz, (10, 10)) is faster
    x = with_nonzeros(10, 10, nnz)
    found = fastest_layout(x.to_sparse_csr())
    assert (found.layout == torch.sparse_csr) is faster
    assert torch.equal(found.to_dense(), x)
    assert fastest_layout(x) is x


@pytest.mark.parametrize(
    ("nnz", "shape", "faster"),
    [
        (1_274_200, (18_333, 6805), True),  # CS
        (1_667_728, (34_493, 8415), True),  # Physics
        (62_480, (2708, 1433), True),  # Cora
        (1_097_000, (19_717, 500), False),  # PubMed
        (2_225_721, (7650, 745), False),  # Photo
    ],
)
def test_the_factored_product_is_chosen_where_it_was_measured_to_be_faster(nnz, shape, faster):
    assert factored_product_is_faster(nnz, shape) is faster


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tables_on_a_gpu_are_dense_and_padded():
    x = with_nonzeros(4, 11, 5).cuda()
    for table in (x, x.to_sparse_csr()):
        assert torch.equal(fastest_layout(table), torch.nn.functional.pad(x, (0, 5)))


def test_rows_are_scaled_by_hand_in_both_layouts():
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0], [0.0, 2.0]])
    for table in (x, x.to_sparse_csr()):
        assert torch.allclose(unit_rows(table).to_dense(), torch.tensor([[0.6, -0.8], [0.0, 0.0], [0.0, 1.0]]))
        assert torch.allclose(unit_sums(table).to_dense(), torch.tensor([[3 / 7, -4 / 7], [0.0, 0.0], [0.0, 1.0]]))
    assert torch.allclose(row_lengths(x.to_sparse_csr()), torch.tensor([5.0, 1e-12, 2.0]))
    scaled = scale_rows(x.to_sparse_csr(), torch.tensor([2.0, 5.0, 0.5]))
    assert torch.equal(scaled.to_dense(), torch.tensor([[6.0, -8.0], [0.0, 0.0], [0.0, 1.0]]))


def test_rows_of_stored_zeros_stay_zero():
    x = torch.sparse_csr_tensor(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.zeros(2), size=(1, 3))
    for scale in (unit_rows, unit_sums):
        assert torch.equal(scale(x).to_dense(), torch.zeros(1, 3))
