"""The gradient of a lookup on a GPU. PyTorch's atomic additions would have a different order in every call."""

from __future__ import annotations

import torch
from torch import Tensor

from afgrl.ops.sparse.matrix import whole_rows
from afgrl.ops.sparse.triton import segment_sums


def sum_by_row_triton(grad: Tensor, index: Tensor, n: int) -> Tensor:
    """As ``sum_by_row_reference``."""
    ascending, order = torch.sort(index, stable=True)
    indptr = torch.searchsorted(ascending, torch.arange(n + 1, device=grad.device))
    # Rows are not split: how often each occurs depends on the data.
    return segment_sums(whole_rows(indptr), n, order, torch.ones(len(index), device=grad.device), None, grad)
