"""The loss over positive pairs, without gathering a row per pair."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import is_fast, takes_kernels

Over = Literal["pairs", "nodes"]


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """The pairs by both their ends: rows of M, which holds the weight of each pair, and rows of its transpose.

    Its sizes follow from the number of candidates, never from how many of them count, so that no GPU has to be
    waited for: a pair that does not count is there with weight 0.
    """

    src: Tensor  # [p] int64, ascending: where each pair begins
    other: Tensor  # [p] int64: where it ends
    start: Tensor  # [n + 1] int64: pairs start[i] to start[i + 1] - 1 begin at node i
    start_back: Tensor  # [n + 1] int64: the same by the end of each pair
    other_back: Tensor  # [p] int64
    order_back: Tensor  # [p] int64: which pair that is
    weight: Tensor  # [p] float32, 1 or 0

    @property
    def n(self) -> int:
        return self.start.shape[0] - 1

    @property
    def directions(self) -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
        """M and Mᵀ, each as start, other and weight."""
        back = self.weight[self.order_back]
        return (self.start, self.other, self.weight), (self.start_back, self.other_back, back)

    def copy_(self, new: PairMatrix) -> None:
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(new, field.name))


def pair_matrix(src: Tensor, dst: Tensor, n: int, weight: Tensor | None = None) -> PairMatrix:
    """The matrix of pairs (src[p], dst[p]), ``src`` ascending, among ``n`` nodes; without weights they all count."""
    nodes = torch.arange(n + 1, device=src.device)
    # Sorting on a GPU takes time by the bytes of a key.
    small = torch.int16 if n < 2**15 else torch.int32 if n < 2**31 else torch.int64
    end, order = torch.sort(dst.to(small), stable=True)
    weight = torch.ones(src.shape[0], device=src.device) if weight is None else weight.to(torch.float32)
    starts = torch.searchsorted(src, nodes), torch.searchsorted(end, nodes.to(small))
    return PairMatrix(src, dst, starts[0], starts[1], src[order], order, weight)


def pair_loss(z: Tensor, t: Tensor, matrix: PairMatrix, *, over: Over = "pairs") -> Tensor:
    """Squared distance of unit prediction and unit target, both ways, summed over pairs; then their mean.

    For a pair (i, j) the two directions give ``(2 - 2 cos(z_i, t_j)) + (2 - 2 cos(z_j, t_i))``. ``over`` divides by
    the number of pairs (the authors' code) or of nodes (equation 3 of the paper, up to its constant). The gradient
    flows to ``z`` only.
    """
    if not is_fast():
        return pair_loss_reference(z, t, matrix, over=over)
    loss: Tensor = _PairLoss.apply(z, t.detach(), matrix, over)
    return loss


def pair_loss_reference(z: Tensor, t: Tensor, matrix: PairMatrix, *, over: Over = "pairs") -> Tensor:
    """The same as it is written down: a term for each pair and direction."""
    total = z.new_zeros(())
    for start, other, weight in matrix.directions:
        node = torch.repeat_interleave(start.diff(), output_size=other.shape[0])
        total = total + (weight * (2 - 2 * F.cosine_similarity(z[node], t.detach()[other]))).sum()
    return total / _divisor(matrix.weight.sum(), matrix.n, over)


def _divisor(count: Tensor, n: int, over: Over) -> Tensor:
    return count.clamp(min=1) if over == "pairs" else torch.full_like(count, n)


class _PairLoss(torch.autograd.Function):
    """Summed over all pairs the loss is ``4 |M| - 2 <P, (M + Mᵀ) T>`` with unit rows P of ``z`` and T of ``t``: one
    sparse product that needs no gradient, and the gradient comes out of the same pass."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, t: Tensor, matrix: PairMatrix, over: Over) -> Tensor:
        count = matrix.weight.sum()
        divisor = _divisor(count, matrix.n, over)
        if takes_kernels(z):
            from afgrl.ops.pairloss_triton import attract_kernel as attract
        else:
            attract = _attract
        agreement, gradient = attract(z, t, matrix, divisor)
        ctx.save_for_backward(gradient)
        return (4 * count - 2 * agreement) / divisor

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return grads[0] * gradient, None, None, None


def _attract(z: Tensor, t: Tensor, matrix: PairMatrix, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """<P, (M + Mᵀ) T>, and the gradient of the loss by ``z``."""
    unit = F.normalize(t)
    pull, back = (
        F.embedding_bag(other, unit, start, mode="sum", per_sample_weights=weight, include_last_offset=True)
        for start, other, weight in matrix.directions
    )
    pull += back
    length = z.norm(dim=1, keepdim=True).clamp(min=1e-12)
    unit = z / length
    along = (unit * pull).sum(1, keepdim=True)
    return along.sum(), (unit.mul_(along).sub_(pull)).mul_(2 / (divisor * length))
