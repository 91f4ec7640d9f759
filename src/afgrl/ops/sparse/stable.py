"""Products whose bits do not depend on how many rows are multiplied at once."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

# Libraries multiply a few rows by other kernels, whose sums have another order: with MKL, those of fewer than 16 rows
# differ in the last bits from those of 16 or more (docs/scale.md).
FEWEST_ROWS = 64


def stable_product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.T`` for [a, d] and [b, d]: [a, b]. The bits of an entry depend on its two rows only."""
    return (_padded(left) @ _padded(right).T)[: len(left), : len(right)]


def _padded(rows: Tensor) -> Tensor:
    missing = FEWEST_ROWS - len(rows)
    return F.pad(rows, (0, 0, 0, missing)) if missing > 0 else rows
