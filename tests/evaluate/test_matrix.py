"""Inputs are checked once, and the products of sparse rows equal those of dense rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.csr import csr_from_scipy
from afgrl.errors import UserError
from afgrl.evaluate import matrix
from afgrl.evaluate.matrix import (
    blockwise_product,
    check_inputs,
    gram_matrix,
    is_sparse,
    take_rows,
    weighted_row_sums,
)
from afgrl.ops import storage


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(9, 5)) * (rng.random((9, 5)) < 0.5)).astype(np.float32)


def test_labels_become_consecutive_classes() -> None:
    x = np.eye(4, dtype=np.float32)
    for y in ([5, 0, 2, 5], torch.tensor([5, 0, 2, 5]), np.array(["c", "a", "b", "c"]), [5.0, 0.0, 2.0, 5.0]):
        assert check_inputs(x, y)[1].tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize(
    "embedding",
    [
        np.eye(3), np.eye(3, dtype=np.float16), np.eye(3, dtype=int), torch.eye(3, requires_grad=True), sp.eye_array(3),
        sp.coo_array(np.eye(3)), torch.eye(3).to_sparse_coo(), csr_from_scipy(sp.eye_array(3)),
    ],
    ids=["float64", "float16", "int", "tensor", "scipy dia", "scipy coo", "coo tensor", "csr tensor"],
)  # fmt: skip
def test_every_type_of_embedding_becomes_a_float_tensor(embedding: object) -> None:
    x, _ = check_inputs(embedding, [0, 1, 2])
    assert x.dtype == (
        torch.float64 if isinstance(embedding, np.ndarray) and embedding.dtype == float else torch.float32
    )
    assert not x.requires_grad
    assert torch.equal(x.to_dense().double(), torch.eye(3).double())


def test_a_sparse_matrix_stays_sparse_unless_dense_is_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    few, many = sp.csr_array(np.eye(9, 4)), sp.csr_array(np.ones((9, 4)))
    assert is_sparse(check_inputs(few, np.zeros(9))[0])
    assert not is_sparse(check_inputs(many, np.zeros(9))[0])


@pytest.mark.parametrize("shape", [(4,), (0, 3), (4, 0), (2, 2, 2)])
def test_an_embedding_has_one_row_per_node(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"must have the shape \[nodes, width\], but its shape is"):
        check_inputs(np.ones(shape, dtype=np.float32), np.zeros(shape[0], dtype=int))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_an_embedding_is_finite(value: float, layout: type) -> None:
    x = np.eye(3, dtype=np.float32)
    x[1, 1] = value
    with pytest.raises(UserError, match=r"contains 1 value\(s\) that are NaN or infinite"):
        check_inputs(layout(x), [0, 1, 2])


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_values_that_are_not_finite_are_counted_in_all_blocks(layout: type, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.eye(10, dtype=np.float32)
    x[[0, 4, 9], [0, 4, 9]] = np.nan
    monkeypatch.setattr(storage, "BLOCK_ROWS", 3)
    with pytest.raises(UserError, match=r"contains 3 value\(s\) that are NaN or infinite"):
        check_inputs(layout(x), np.zeros(10))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, -1], "Labels must be 0 or more, but one is -1; leave out unlabeled nodes"),
        ([0, 1, np.nan], "Labels must be 0 or more, but one is nan"),
        ([0, 1], r"has 3 rows, but the labels have the shape \(2,\)"),
        ([[0], [1], [2]], r"has 3 rows, but the labels have the shape \(3, 1\)"),
    ],
)
def test_labels_are_one_class_per_node(y: list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_inputs(np.eye(3, dtype=np.float32), y)


@pytest.mark.parametrize(
    "layout", [torch.from_numpy, lambda x: csr_from_scipy(sp.csr_array(x))], ids=["dense", "sparse"]
)
def test_products_equal_numpy(rows: np.ndarray, layout: type, monkeypatch: pytest.MonkeyPatch) -> None:
    x, index = layout(rows), torch.tensor([8, 0, 3, 3])
    exact = rows[index].astype(np.float64)
    assert np.array_equal(take_rows(x, index.view(2, 2)), rows[index].reshape(2, 2, 5))
    np.testing.assert_allclose(gram_matrix(x, index), exact @ exact.T, rtol=1e-14, atol=1e-14)  # float64
    weights = torch.arange(12, dtype=torch.float64).view(4, 3)
    np.testing.assert_allclose(weighted_row_sums(x, index, weights), exact.T @ weights.numpy(), rtol=1e-14, atol=1e-13)
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4 * 3 * 4)  # four rows of three float32 columns
    blocks = list(blockwise_product(x, torch.ones(5, 3)))
    assert [block for block, _ in blocks] == [slice(0, 4), slice(4, 8), slice(8, 9)]
    np.testing.assert_allclose(torch.cat([part for _, part in blocks]), rows @ np.ones((5, 3)), atol=1e-6)
