"""The batched fit equals scikit-learn's LogisticRegression, in the features and in the span of the training rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from torch.nn import functional as F

from afgrl.csr import csr_from_scipy
from afgrl.evaluate.logistic import fit_logistic
from afgrl.ops.sparse.rows import unit_rows

STRENGTHS = (0.25, 4.0, 64.0, 1024.0)


def wide(x: np.ndarray, d: int) -> np.ndarray:
    """d random non-linear features of the rows."""
    weight = np.random.default_rng(1).normal(size=(x.shape[1], d)) / 20
    return np.maximum(x @ weight, 0).astype(np.float32)


def mean_loss(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, c: float) -> float:
    loss = F.cross_entropy(x.double() @ weight.double() + bias.double(), y)
    return float(loss + weight.double().square().sum() / (2 * c * len(y)))


@pytest.mark.parametrize("d", [64, 63, 300])  # fewer columns than the 150 and 120 training rows, and more
def test_coefficients_and_losses_equal_scikit_learn(digits: tuple[np.ndarray, np.ndarray], d: int) -> None:
    raw, y = digits
    x = normalize(raw[:, :d] if d <= 64 else wide(raw, d))
    rows, classes = torch.from_numpy(x), torch.from_numpy(y)
    index = torch.stack([torch.arange(150), torch.arange(300, 450)])
    mask = torch.ones(2, 150, dtype=torch.bool)
    mask[1, 120:] = False  # splits of different sizes: the last 30 entries are padding
    weight, bias = fit_logistic(rows.double(), classes, index, mask, torch.tensor(STRENGTHS).double(), tolerance=1e-8)
    assert weight.shape == (2, len(STRENGTHS), d, 10)
    for split, (start, stop) in enumerate(((0, 150), (300, 420))):
        for i, c in enumerate(STRENGTHS):
            reference = LogisticRegression(C=c, tol=1e-9, max_iter=5000).fit(x[start:stop].astype(float), y[start:stop])
            # Both stop at a gradient of at most 1e-8, and the curvature is at least the penalty, 1 / (C n).
            np.testing.assert_allclose(weight[split, i], reference.coef_.T, atol=1e-7 * c * 150 + 1e-6)
            centered = bias[split, i] - bias[split, i].mean()  # a common shift of all biases has no effect
            np.testing.assert_allclose(
                centered, reference.intercept_ - reference.intercept_.mean(), atol=1e-7 * c * 150 + 1e-6
            )
            part = rows[start:stop], classes[start:stop]
            theirs = mean_loss(*part, torch.from_numpy(reference.coef_.T), torch.from_numpy(reference.intercept_), c)
            assert mean_loss(*part, weight[split, i], bias[split, i], c) == pytest.approx(theirs, abs=1e-7)


@pytest.mark.parametrize("d", [64, 300])
def test_the_loss_in_float32_is_as_low_as_scikit_learns(digits: tuple[np.ndarray, np.ndarray], d: int) -> None:
    raw, y = digits
    x = normalize(raw if d == 64 else wide(raw, d))
    rows, classes = torch.from_numpy(x), torch.from_numpy(y)
    index = torch.arange(150).unsqueeze(0)
    weight, bias = fit_logistic(rows, classes, index, torch.ones_like(index, dtype=torch.bool), torch.tensor(STRENGTHS))
    assert weight.dtype == torch.float32
    for i, c in enumerate(STRENGTHS):
        reference = LogisticRegression(C=c, tol=1e-9, max_iter=5000).fit(x[:150].astype(float), y[:150])
        part = rows[:150], classes[:150]
        best = mean_loss(*part, torch.from_numpy(reference.coef_.T), torch.from_numpy(reference.intercept_), c)
        # With a gradient g the loss is at most |g|² C n / 2 above the minimum; here it is far closer.
        assert mean_loss(*part, weight[0, i], bias[0, i], c) == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("n_train", [40, 150])
def test_sparse_rows_give_the_same_classifier_as_dense_rows(
    digits: tuple[np.ndarray, np.ndarray], n_train: int
) -> None:
    raw, y = digits
    x = unit_rows(torch.from_numpy(raw))
    sparse = unit_rows(csr_from_scipy(sp.csr_array(raw)))
    index = torch.arange(2 * n_train).view(2, n_train)
    mask = torch.ones_like(index, dtype=torch.bool)
    arguments = torch.from_numpy(y), index, mask, torch.tensor([1.0, 16.0])
    for dense_part, sparse_part in zip(fit_logistic(x, *arguments), fit_logistic(sparse, *arguments), strict=True):
        torch.testing.assert_close(dense_part, sparse_part, rtol=1e-3, atol=1e-3)  # one optimum, other float32 products


def test_linearly_dependent_rows_and_zero_rows_are_accepted() -> None:
    rng = torch.Generator().manual_seed(0)
    x = F.normalize(torch.randn(6, 50, generator=rng))[torch.tensor([0, 1, 2, 0, 1, 2, 3, 4])]
    x[6] = 0
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    index = torch.arange(7).unsqueeze(0)
    weight, bias = fit_logistic(x, y, index, torch.ones_like(index, dtype=torch.bool), torch.tensor([64.0]))
    assert torch.isfinite(weight).all()
    assert (x[:6] @ weight[0, 0] + bias[0, 0]).argmax(1).tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("d", [3, 30])
def test_a_class_without_training_rows_is_never_predicted(d: int) -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = F.normalize(torch.randn(12, d, generator=rng)), torch.arange(12) % 3
    index = torch.tensor([[0, 1, 3, 4, 6, 7], [0, 1, 2, 3, 4, 5]])  # the first split lacks class 2
    weight, bias = fit_logistic(x, y, index, torch.ones_like(index, dtype=torch.bool), torch.tensor([1.0]))
    assert bias[0, 0, 2] == -torch.inf
    assert torch.isfinite(bias[1]).all()
    # With two classes the softmax has twice as many weights as scikit-learn's sigmoid: half the penalty, twice its C.
    two = LogisticRegression(C=2.0, tol=1e-9).fit(x[index[0]].double().numpy(), y[index[0]].numpy())
    difference = weight[0, 0, :, 1] - weight[0, 0, :, 0]
    np.testing.assert_allclose(difference, two.coef_[0], atol=2e-3)  # of the default tolerance
