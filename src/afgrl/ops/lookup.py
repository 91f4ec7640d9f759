"""Rows of a learned table, with a gradient that is summed in the same order each time and waits for nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.ops.dispatch import takes_kernels
from afgrl.ops.links import Pieces


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]``: [..., d] for a table [n, d] and whole numbers of any shape."""
    rows: Tensor = _Lookup.apply(table, index)
    return rows


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.n = table.shape[0]
        ctx.save_for_backward(index)
        return table[index]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        index = ctx.saved_tensors[0].reshape(-1)
        grad = grads[0].reshape(len(index), -1)
        if not takes_kernels(grad):
            return grad.new_zeros(ctx.n, grad.shape[1]).index_add_(0, index, grad), None
        from afgrl.ops.links_triton import gather_kernel

        # Atomic additions, PyTorch's way on a GPU, would come in another order each time.
        nodes = torch.arange(ctx.n + 1, device=grad.device)
        sorted_index, order = torch.sort(index, stable=True)
        start = torch.searchsorted(sorted_index, nodes)
        # How often a row occurs follows the data, so it cannot be cut into pieces.
        rows = Pieces(start[:-1], start[1:], nodes[:-1], nodes[:0], nodes[:1])
        return gather_kernel(ctx.n, rows, order, torch.ones(len(index), device=grad.device), None, grad), None
