"""Fused batch normalization and PReLU on a GPU: one pass forward, one backward, and a small one for column sums."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.bn_prelu.reference import FrozenNorm
from afgrl.ops.triton_rows import INTERPRETED

ROWS, COLUMNS = 32, 128  # of a tile
PROGRAMS = 1024  # at least, if there are enough rows


def forward_triton(x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor) -> Tensor:
    """As ``forward_cpu``."""
    n, d = x.shape
    x = x.contiguous()
    y = torch.empty_like(x)
    _forward[(triton.cdiv(n, ROWS), triton.cdiv(d, COLUMNS))](
        x, bias, norm.mean, norm.variance, norm.gain, norm.shift, slope, y, n, d, norm.eps, ROWS=ROWS, COLUMNS=COLUMNS
    )
    return y


def backward_triton(
    grad: Tensor, x: Tensor, bias: Tensor, norm: FrozenNorm, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As ``backward_cpu``."""
    n, d = x.shape
    grad, x = grad.contiguous(), x.contiguous()
    by_x = torch.empty_like(x)
    tiles = triton.cdiv(d, COLUMNS)
    parts = max(1, min(triton.cdiv(PROGRAMS, tiles), triton.cdiv(n, ROWS)))
    rows_each = triton.cdiv(triton.cdiv(n, parts), ROWS) * ROWS
    sums = torch.empty(3, parts, d, device=x.device)
    _backward[(parts, tiles)](
        grad, x, bias, norm.mean, norm.variance, norm.gain, norm.shift, slope, by_x, sums,
        n, d, norm.eps, rows_each, parts, ROWS=ROWS, COLUMNS=COLUMNS,
    )  # fmt: skip
    by_columns = torch.empty(4, d, device=x.device)
    width = COLUMNS if INTERPRETED else 32
    _add_up[(triton.cdiv(d, width),)](
        sums, norm.variance, norm.gain, by_columns, d, norm.eps, parts, PARTS=128, COLUMNS=width
    )
    by_shift, by_gain, by_bias, by_slope = by_columns
    return by_x, by_bias, by_gain, by_shift, by_slope.sum().view(1)


@triton.jit
def _forward(x, bias, mean, variance, gain, shift, slope, y, n, d, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < d
    factor = tl.load(gain + column, mask=inside) / tl.sqrt(tl.load(variance + column, mask=inside, other=1.0) + eps)
    offset = tl.load(bias + column, mask=inside) - tl.load(mean + column, mask=inside)
    summand = offset * factor + tl.load(shift + column, mask=inside)
    at = row[:, None] * d + column[None, :]
    mask = (row < n)[:, None] & inside[None, :]
    before = tl.load(x + at, mask=mask, other=0.0) * factor[None, :] + summand[None, :]
    tl.store(y + at, tl.where(before > 0, before, before * tl.load(slope)), mask=mask)


@triton.jit
def _backward(
    grad, x, bias, mean, variance, gain, shift, slope, by_x, sums, n, d, eps, rows_each, parts,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient by x of a part of the rows, and the column sums of that part: by shift, gain and slope."""
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < d
    inverse = 1.0 / tl.sqrt(tl.load(variance + column, mask=inside, other=1.0) + eps)
    factor = tl.load(gain + column, mask=inside, other=0.0)
    offset = tl.load(bias + column, mask=inside, other=0.0) - tl.load(mean + column, mask=inside, other=0.0)
    summand = tl.load(shift + column, mask=inside, other=0.0)
    negative_slope = tl.load(slope)
    by_shift = tl.zeros([COLUMNS], tl.float32)
    by_gain = tl.zeros([COLUMNS], tl.float32)
    by_slope = tl.zeros([COLUMNS], tl.float32)
    for start in range(part * rows_each, tl.minimum((part + 1) * rows_each, n), ROWS):
        row = start + tl.arange(0, ROWS).to(tl.int64)
        at = row[:, None] * d + column[None, :]
        mask = (row < n)[:, None] & inside[None, :]
        up = tl.load(grad + at, mask=mask, other=0.0)
        normal = (tl.load(x + at, mask=mask, other=0.0) + offset[None, :]) * inverse[None, :]
        before = normal * factor[None, :] + summand[None, :]
        by_before = tl.where(before > 0, up, up * negative_slope)
        tl.store(by_x + at, by_before * (factor * inverse)[None, :], mask=mask)
        by_shift += tl.sum(by_before, 0)
        by_gain += tl.sum(by_before * normal, 0)
        by_slope += tl.sum(tl.where(before > 0, 0.0, up * before), 0)
    to = part * d + column
    tl.store(sums + to, by_shift, mask=inside)
    tl.store(sums + parts * d + to, by_gain, mask=inside)
    tl.store(sums + 2 * parts * d + to, by_slope, mask=inside)


@triton.jit
def _add_up(sums, variance, gain, out, d, eps, parts, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    """Adds all parts: the gradients by shift, gain, bias and slope, the last still one per column."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < d
    for which in tl.static_range(3):
        total = tl.zeros([COLUMNS], tl.float32)
        for first in range(0, parts, PARTS):
            part = first + tl.arange(0, PARTS)
            at = (which * parts + part)[:, None] * d + column[None, :]
            total += tl.sum(tl.load(sums + at, mask=(part < parts)[:, None] & inside[None, :], other=0.0), 0)
        if which == 0:
            factor = tl.load(gain + column, mask=inside, other=0.0)
            factor /= tl.sqrt(tl.load(variance + column, mask=inside, other=1.0) + eps)
            tl.store(out + 2 * d + column, total * factor, mask=inside)
        tl.store(out + (which + (which == 2)) * d + column, total, mask=inside)
