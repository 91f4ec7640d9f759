"""InfoNCE on a CPU, for a block of rows at a time: both sums over all rows, as ``_InfoNCE`` defines them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from afgrl.ops.dispatch import Precision

BLOCK_BYTES = 32 << 20  # size of a block of similarities


def denominator_cpu(unit: Tensor, temperature: float, precision: Precision = "float32") -> Tensor:
    """D_i = Σ_j E_ij: [2n]."""
    return torch.cat([block.sum(1) for _, block in _exponentials(unit, temperature)])


def repulsion_cpu(unit: Tensor, inverse: Tensor, temperature: float, precision: Precision = "float32") -> Tensor:
    """Σ_j E_ij (1/D_i + 1/D_j) U_j, with 1/D in ``inverse`` [2n]: [2n, d]."""
    repulsion = torch.empty_like(unit)
    for rows, block in _exponentials(unit, temperature):
        torch.mm(block.mul_(inverse[rows, None] + inverse), unit, out=repulsion[rows])
    return repulsion


def _exponentials(unit: Tensor, temperature: float) -> Iterator[tuple[slice, Tensor]]:
    """E in blocks of rows: slices and [b, 2n]."""
    n = unit.shape[0]
    size = max(1, BLOCK_BYTES // (unit.element_size() * n))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        shift = unit.new_full((1,), -1 / temperature)
        block = torch.addmm(shift, unit[rows], unit.T, alpha=1 / temperature).exp_()
        block.diagonal(start).zero_()
        yield rows, block
