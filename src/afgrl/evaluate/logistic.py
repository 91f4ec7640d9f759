"""Multinomial logistic regression with an L2 penalty, fitted for all splits and strengths at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.evaluate.lbfgs import minimize
from afgrl.evaluate.matrix import gram_matrix, take_rows, weighted_row_sums

TOLERANCE = 1e-5  # largest entry of the gradient of the mean loss, for features of spread 1; scikit-learn uses 1e-4
JITTER = 1e-9  # added to the diagonal of a Gram matrix, so that Cholesky accepts linearly dependent unit rows


def fit_logistic(
    x: Tensor, y: Tensor, index: Tensor, mask: Tensor, strengths: Tensor, tolerance: float = TOLERANCE
) -> tuple[Tensor, Tensor]:
    """Weights [s, g, d, c] and biases [s, g, c] for the training rows of each split and each strength C.

    ``index`` [s, m] contains the training rows and ``mask`` [s, m] marks the valid entries, which come first. The
    objective is the mean loss plus |weight|² / (2 C n_train), scikit-learn's up to a factor. A class without training
    rows gets the bias -inf, so it is never predicted.
    """
    s, m = index.shape
    if x.shape[1] <= m:
        return _fit_features(take_rows(x, index), y, index, mask, strengths, tolerance)
    # The solution is a linear combination of the training rows (representer theorem), so the problem can be solved in
    # their span: if L Lᵀ is the Gram matrix, the rows of L are the training rows in an orthonormal basis.
    factor = torch.stack([_gram_factor(x, rows, valid) for rows, valid in zip(index, mask, strict=True)])  # [s, m, m]
    weight, bias = _fit_features(factor.to(x.dtype), y, index, mask, strengths, tolerance)
    g, c = len(strengths), weight.shape[-1]
    flat = weight.permute(0, 2, 1, 3).reshape(s, m, g * c).double()
    coefficients = torch.linalg.solve_triangular(factor.mT, flat, upper=True)
    weights = [
        weighted_row_sums(x, rows[valid], own[valid]).to(x.dtype).view(-1, g, c)
        for rows, valid, own in zip(index, mask, coefficients, strict=True)
    ]
    return torch.stack(weights).permute(0, 2, 1, 3), bias


def _gram_factor(x: Tensor, rows: Tensor, valid: Tensor) -> Tensor:
    """The Cholesky factor of the Gram matrix of the valid rows: [m, m] float64, nearly zero for padding."""
    gram = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=x.device)
    n_valid = int(valid.sum())
    gram[:n_valid, :n_valid] = gram_matrix(x, rows[:n_valid])
    gram.diagonal().add_(JITTER)
    return torch.linalg.cholesky(gram)


def _fit_features(
    features: Tensor, y: Tensor, index: Tensor, mask: Tensor, strengths: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    s, _, r = features.shape
    g, c = len(strengths), int(y.max()) + 1
    n_train = mask.sum(1, keepdim=True)
    target = F.one_hot(y[index], c).to(features.dtype) * mask.unsqueeze(2)
    share = (mask / n_train).to(features.dtype)
    # Center and scale the features: rows with a large common mean, as embeddings have, would need hundreds of steps.
    # The bias absorbs the mean and the penalty absorbs the scale, so the problem stays the same.
    mean = (share.unsqueeze(2) * features).sum(1)  # [s, r]
    features = features - mean.unsqueeze(1)
    spread = (share * features.square().sum(2)).sum(1).sqrt().clamp(min=1e-6)  # [s]
    losses = PenalizedLosses(
        features=torch.cat([features / spread[:, None, None], torch.ones_like(features[..., :1])], dim=2),
        target=target,
        present=target.any(1),
        share=share,
        penalty=(1 / (strengths * n_train * spread.unsqueeze(1).square())).to(features.dtype),
    )
    start = features.new_zeros(s * g, (r + 1) * c)
    solution = minimize(losses, start, tolerance=tolerance).view(s, g, r + 1, c)
    weight = solution[:, :, :r] / spread[:, None, None, None]
    bias = solution[:, :, r] - torch.einsum("sr,sgrc->sgc", mean, weight)
    return weight, bias.masked_fill(~losses.present.unsqueeze(1), -torch.inf)


@dataclass(frozen=True, eq=False)
class PenalizedLosses:
    """The objective of every split and strength; problem i is strength i % g of split i // g."""

    features: Tensor  # [s, m, r + 1], the last column is 1: its weight is the bias, which is not penalized
    target: Tensor  # [s, m, c] one-hot; zero for padding
    present: Tensor  # [s, c] whether the class occurs among the training rows
    share: Tensor  # [s, m] weight of each row in the mean loss; zero for padding
    penalty: Tensor  # [s, g]

    def __call__(self, points: Tensor, problems: Tensor) -> tuple[Tensor, Tensor]:
        s, _, width = self.features.shape
        c = self.target.shape[2]
        split, slot, n_slots = _slots(problems, *self.penalty.shape)
        weight = points.view(-1, width, c)
        packed = weight.new_zeros(s, width, n_slots, c)
        packed[split, :, slot] = weight
        logits = (self.features @ packed.flatten(2)).view(s, -1, n_slots, c)
        # Finite instead of -inf, because it is multiplied by a zero of the target below.
        logits.masked_fill_(~self.present[:, None, None], torch.finfo(logits.dtype).min)
        normalizer = logits.logsumexp(-1, keepdim=True)  # [s, m, slots, 1]
        target, share = self.target.unsqueeze(2), self.share[..., None, None]
        loss = ((normalizer - (logits * target).sum(-1, keepdim=True)) * share).sum((1, 3))[split, slot]
        error = (logits - normalizer).exp_().mul_(share).sub_(target * share)
        gradient = (self.features.mT @ error.flatten(2)).view(s, width, n_slots, c)[split, :, slot]
        penalty = self.penalty.flatten()[problems]
        loss = loss + penalty / 2 * weight[:, :-1].square().sum((1, 2))
        gradient[:, :-1] += penalty[:, None, None] * weight[:, :-1]
        return loss, gradient.flatten(1)


def _slots(problems: Tensor, s: int, g: int) -> tuple[Tensor, Tensor, int]:
    """Pack the problems of each split side by side: the split and slot of each problem (ascending), and the width."""
    split = problems // g
    counts = torch.bincount(split, minlength=s)
    first = counts.cumsum(0) - counts
    return split, torch.arange(len(problems), device=problems.device) - first[split], int(counts.max())
