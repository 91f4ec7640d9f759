"""The rows that the kernels of k-NN, k-means and InfoNCE read: in the dtype of the products, padded to whole tiles."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from afgrl.ops.dispatch import Precision

WIDTH = 64  # columns are padded to a multiple of this: products of unaligned rows are up to ten times slower
# How tl.dot multiplies float32 operands; three tf32 products are nearly as precise as one of float32.
DOT = {"float32": "tf32x3", "tf32": "tf32", "bf16": "tf32"}
DTYPE = {"float32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
# The interpreter stores bfloat16 as bits and would multiply those, so kernels convert to float32 first.
INTERPRETED = triton.knobs.runtime.interpret
ROWS = 64 if INTERPRETED else 4  # of a program; the time of the interpreter depends on the number of programs


def padded_rows(x: Tensor, precision: Precision, *, multiple: int, unit: bool) -> tuple[Tensor, Tensor]:
    """The rows of ``x`` in the dtype of ``precision``, padded with zeros to whole tiles, and 1 / length of each row.

    ``unit`` scales them to length 1; zero rows stay zero.
    """
    x = x.contiguous()
    n, d = x.shape
    rows, width = triton.cdiv(n, multiple) * multiple, triton.cdiv(d, WIDTH) * WIDTH
    out = torch.empty(rows, width, dtype=DTYPE[precision], device=x.device)
    inverse = torch.empty(n, device=x.device)
    _pad[(triton.cdiv(rows, ROWS),)](
        x,
        out,
        inverse,
        n,
        rows,
        d,
        x.stride(0),
        width,
        UNIT=unit,
        ROWS=ROWS,
        BLOCK=512 // ROWS if not INTERPRETED else 64,
    )
    return out, inverse


def tiled(x: Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A descriptor by which the copy engine reads ``x`` tile by tile."""
    return TensorDescriptor.from_tensor(x, [rows, columns])


@triton.jit
def _pad(x, out, inverse, n, n_out, d, stride, width, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    square = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        given = (row < n)[:, None] & (column < d)[None, :]
        value = tl.load(x + row[:, None] * stride + column[None, :], mask=given, other=0.0)
        square += value * value
    scale = 1.0 / tl.maximum(tl.sqrt(tl.sum(square, 1)), 1e-12)
    tl.store(inverse + row, scale, mask=row < n)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        given = (row < n)[:, None] & (column < d)[None, :]
        value = tl.load(x + row[:, None] * stride + column[None, :], mask=given, other=0.0)
        if UNIT:
            value *= scale[:, None]
        inside = (row < n_out)[:, None] & (column < width)[None, :]
        tl.store(out + row[:, None] * width + column[None, :], value.to(out.dtype.element_ty), mask=inside)
