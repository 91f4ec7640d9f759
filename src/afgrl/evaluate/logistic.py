"""Multinomial logistic regression with an L2 penalty, for all splits and strengths as one problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.evaluate import rows
from afgrl.evaluate.lbfgs import minimize

TOLERANCE = 1e-5  # largest entry of the gradient of the mean loss, for rows of spread 1; a tenth of scikit-learn's
JITTER = 1e-9  # on a Gram matrix of unit rows: Cholesky needs it where training rows depend on each other


def fit(
    x: Tensor, y: Tensor, index: Tensor, mask: Tensor, strengths: Tensor, tolerance: float = TOLERANCE
) -> tuple[Tensor, Tensor]:
    """Weights [s, g, d, c] and biases [s, g, c] of each split's training rows and each strength C.

    ``index`` [s, m] names the training rows, ``mask`` says which of them are real. The objective is the mean
    loss plus |weight|² / (2 C n_train), scikit-learn's up to a factor. A class without training rows gets the
    bias -inf: it is never predicted.
    """
    s, m = index.shape
    if x.shape[1] <= m:
        return _fit(rows.take(x, index), y, index, mask, strengths, tolerance)
    # The solution is a combination of the training rows (representer theorem), so coordinates in their span
    # will do: with K = L Lᵀ the rows of L are the training rows in an orthonormal basis.
    factor = torch.stack([_factor(x, i, real) for i, real in zip(index, mask, strict=True)])  # [s, m, m]
    weight, bias = _fit(factor.to(x.dtype), y, index, mask, strengths, tolerance)
    g, c = len(strengths), weight.shape[-1]
    flat = weight.permute(0, 2, 1, 3).reshape(s, m, g * c).double()
    coefficients = torch.linalg.solve_triangular(factor.mT, flat, upper=True)
    spanned = [
        rows.combine(x, i[real], a[real]).to(x.dtype).view(-1, g, c)
        for i, real, a in zip(index, mask, coefficients, strict=True)
    ]
    return torch.stack(spanned).permute(0, 2, 1, 3), bias


def _factor(x: Tensor, index: Tensor, real: Tensor) -> Tensor:
    products = torch.zeros(len(index), len(index), dtype=torch.float64, device=x.device)
    n_real = int(real.sum())  # the real rows come first
    products[:n_real, :n_real] = rows.gram(x, index[:n_real])
    products.diagonal().add_(JITTER)
    return torch.linalg.cholesky(products)


def _fit(
    features: Tensor, y: Tensor, index: Tensor, mask: Tensor, strengths: Tensor, tolerance: float
) -> tuple[Tensor, Tensor]:
    s, _, r = features.shape
    g, c = len(strengths), int(y.max()) + 1
    n_train = mask.sum(1, keepdim=True)
    target = F.one_hot(y[index], c).to(features.dtype) * mask.unsqueeze(2)
    share = (mask / n_train).to(features.dtype)
    # The same problem in better coordinates: rows that share a large mean, as embeddings do, would take
    # hundreds of steps. The free bias takes up the mean, the penalty takes up the scale.
    mean = (share.unsqueeze(2) * features).sum(1)  # [s, r]
    features = features - mean.unsqueeze(1)
    spread = (share * features.square().sum(2)).sum(1).sqrt().clamp(min=1e-6)  # [s]
    losses = PenalisedLosses(
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
class PenalisedLosses:
    """The objective of every split and strength; problem i is strength i % g of split i // g."""

    features: Tensor  # [s, m, r + 1], the last all ones: its weight is the bias, which is not penalized
    target: Tensor  # [s, m, c] one-hot; zero on rows that only pad
    present: Tensor  # [s, c] whether the class occurs among the training rows
    share: Tensor  # [s, m] of each row in the mean; zero on rows that only pad
    penalty: Tensor  # [s, g]

    def __call__(self, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        s, _, width = self.features.shape
        c = self.target.shape[2]
        split, slot, n_slots = _slots(which, *self.penalty.shape)
        weight = points.view(-1, width, c)
        packed = weight.new_zeros(s, width, n_slots, c)
        packed[split, :, slot] = weight
        logits = (self.features @ packed.flatten(2)).view(s, -1, n_slots, c)
        # Finite, not -inf: it is multiplied by a zero of the target below.
        logits.masked_fill_(~self.present[:, None, None], torch.finfo(logits.dtype).min)
        normalizer = logits.logsumexp(-1, keepdim=True)  # [s, m, slots, 1]
        target, share = self.target.unsqueeze(2), self.share[..., None, None]
        loss = ((normalizer - (logits * target).sum(-1, keepdim=True)) * share).sum((1, 3))[split, slot]
        error = (logits - normalizer).exp_().mul_(share).sub_(target * share)
        gradient = (self.features.mT @ error.flatten(2)).view(s, width, n_slots, c)[split, :, slot]
        penalty = self.penalty.flatten()[which]
        loss = loss + penalty / 2 * weight[:, :-1].square().sum((1, 2))
        gradient[:, :-1] += penalty[:, None, None] * weight[:, :-1]
        return loss, gradient.flatten(1)


def _slots(which: Tensor, s: int, g: int) -> tuple[Tensor, Tensor, int]:
    """Where problem ``which`` (ascending) goes when a split's stand side by side: split, slot, slots."""
    split = which // g
    counts = torch.bincount(split, minlength=s)
    first = counts.cumsum(0) - counts
    return split, torch.arange(len(which), device=which.device) - first[split], int(counts.max())
