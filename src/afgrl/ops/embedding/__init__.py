"""Rows of a learned table, with a gradient whose sums have the same order in every call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from afgrl.ops.dispatch import takes_kernels
from afgrl.ops.embedding.reference import sum_by_row_reference


def embedding_rows(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]`` for a table [n, d] and integers of any shape: [..., d]."""
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
        grad = grads[0].reshape(len(index), grads[0].shape[-1])  # the index may be empty
        if takes_kernels(grad):
            from afgrl.ops.embedding.triton import sum_by_row_triton

            return sum_by_row_triton(grad, index, ctx.n), None
        return sum_by_row_reference(grad, index, ctx.n), None
