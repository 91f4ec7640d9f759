"""How a set of vectors fills its space: effective rank, collapse, hubness, and agreement of nearest neighbors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate.matrix import is_sparse

BLOCK_ROWS = 1 << 16  # that are in double precision at once
CONSTANT = 0.01  # a column is nearly constant if its standard deviation is below this share of the mean one


def effective_rank(x: Tensor) -> float:
    """exp(-Σ p log p) with p = σ / Σσ, for the singular values σ of the rows ``x`` [n, d], dense or CSR.

    From 1 (all rows on one line) to min(n, d). Roy and Vetterli, "The effective rank: a measure of effective
    dimensionality", EUSIPCO 2007; as a measure of embeddings: RankMe (Garrido et al., ICML 2023). Not centered, as
    there. Complexity: O(n·d·m + m³) with m = min(n, d).
    """
    eigenvalues = torch.linalg.eigvalsh(_smaller_gram_matrix(x))
    singular = eigenvalues.clamp(min=0).sqrt()
    total = float(singular.sum())
    if not total:
        return 0.0  # all vectors are zero
    return float(torch.special.entr(singular / total).sum().exp())


def _smaller_gram_matrix(x: Tensor) -> Tensor:
    """x xᵀ or xᵀ x, whichever is smaller: [m, m] float64. In float32, small singular values would be rounding."""
    wide = x.shape[1] > x.shape[0]
    if is_sparse(x):
        rows = csr_to_scipy(x).astype(np.float64)
        return torch.from_numpy((rows @ rows.T if wide else rows.T @ rows).toarray())
    dense = x.double()
    return dense @ dense.T if wide else dense.T @ dense


class Collapse(NamedTuple):
    mean_cosine: float  # of a vector and the mean of all unit vectors: 1 if all have one direction
    constant_columns: float  # share of columns that hardly vary between nodes


def collapse(unit: Tensor) -> Collapse:
    """How far unit rows [n, d], dense or CSR, have collapsed.

    The mean cosine to the mean vector is the length of the mean unit vector. A column is nearly constant if its
    standard deviation is below 1 % of the root mean square over all columns. Both are signs of what Jing et al.
    ("Understanding dimensional collapse in contrastive self-supervised learning", ICLR 2022) call complete and
    dimensional collapse.
    """
    mean, square = _column_means(unit)
    variance = (square - mean.square()).clamp(min=0)
    limit = CONSTANT**2 * float(variance.mean())
    return Collapse(float(torch.linalg.vector_norm(mean)), float((variance <= limit).double().mean()))


def _column_means(x: Tensor) -> tuple[Tensor, Tensor]:
    """The means of the columns and of their squares, [d] float64 each."""
    if not is_sparse(x):
        mean = x.mean(0, dtype=torch.float64)
        sums = torch.stack([(block.double() - mean).square().sum(0) for block in x.split(BLOCK_ROWS)])
        return mean, sums.sum(0) / len(x) + mean.square()
    rows = csr_to_scipy(x).astype(np.float64)
    means = (np.asarray(part.sum(0)).ravel() / x.shape[0] for part in (rows, rows * rows))
    mean, square = (torch.from_numpy(part) for part in means)
    return mean, square


def hubness(neighbors: Tensor) -> float:
    """The skewness of how often a row is among the nearest neighbors [n, k] of the others.

    About 0 if all rows are neighbors equally often; large if a few hubs are neighbors of most others. The skewness of
    the k-occurrence N_k of Radovanović, Nanopoulos and Ivanović ("Hubs in space", JMLR 2010), without bias correction.
    """
    n = neighbors.shape[0]
    counts = torch.bincount(neighbors.flatten(), minlength=n).double()
    centered = counts - counts.mean()
    spread = float(centered.square().mean().sqrt())
    return float(centered.pow(3).mean()) / spread**3 if spread else 0.0


def neighbor_overlap(first: Tensor, second: Tensor) -> float:
    """Of the k nearest neighbors [n, k] of a row in one set of vectors, the share that it also has in another; the
    mean over all rows. Two unrelated sets give about k / n."""
    if first.shape != second.shape:
        raise UserError(f"The lists of neighbors have different shapes: {tuple(first.shape)}, {tuple(second.shape)}.")
    common = (first.unsqueeze(2) == second.unsqueeze(1)).any(2)
    return float(common.double().mean())
