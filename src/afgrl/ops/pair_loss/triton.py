"""The pair loss on a GPU: target sums, agreement and gradient of each node in one pass over the rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.sparse.matrix import SparseMatrix

ENTRIES = 8  # target rows in flight at a time, or fewer if nodes have fewer pairs


def agreement_triton(z: Tensor, t: Tensor, matrix: SparseMatrix, divisor: Tensor) -> tuple[Tensor, Tensor]:
    """As ``agreement_cpu``."""
    n, d = z.shape
    z, t = z.contiguous(), t.contiguous()
    weight = matrix.explicit_values
    inverse = torch.empty(n, device=z.device)
    gradient = torch.empty_like(z)
    cosine = torch.empty(n, device=z.device)
    block = triton.next_power_of_2(d)
    entries = min(ENTRIES, triton.next_power_of_2(max(1, matrix.nnz // n)))
    _inverse_length[(n,)](t, inverse, d, BLOCK=block)
    _agreement[(n,)](
        z, t, inverse, matrix.indptr, matrix.indices, weight, matrix.indptr_t, matrix.indices_t, weight[matrix.order_t],
        divisor, cosine, gradient, d, BLOCK=block, ENTRIES=entries, num_warps=4 if block <= 1024 else 8,
    )  # fmt: skip
    return cosine.sum(), gradient


@triton.jit
def _inverse_length(t, inverse_out, d, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(t + row * d + column, mask=column < d, other=0.0)
    tl.store(inverse_out + row, 1.0 / tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-12))


@triton.jit
def _target_sum(t, inverse, indptr, indices, weight, row, d, BLOCK: tl.constexpr, ENTRIES: tl.constexpr):
    """The weighted sum of the unit target vectors of a node's pairs."""
    column = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    last = tl.load(indptr + row + 1)
    for first in range(tl.load(indptr + row), last, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        factor = tl.load(weight + entry, mask=entry < last, other=0.0)
        counts = factor > 0
        node = tl.load(indices + entry, mask=counts, other=0).to(tl.int64)
        factor *= tl.load(inverse + node, mask=counts, other=0.0)
        inside = counts[:, None] & (column < d)[None, :]
        total += tl.sum(tl.load(t + node[:, None] * d + column[None, :], mask=inside, other=0.0) * factor[:, None], 0)
    return total


@triton.jit
def _agreement(
    z, t, inverse, indptr, indices, weight, indptr_t, indices_t, weight_t, divisor, cosine_out, gradient_out, d,
    BLOCK: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    pull = _target_sum(t, inverse, indptr, indices, weight, row, d, BLOCK, ENTRIES)
    pull += _target_sum(t, inverse, indptr_t, indices_t, weight_t, row, d, BLOCK, ENTRIES)
    own = tl.load(z + row * d + column, mask=column < d, other=0.0)
    length = tl.maximum(tl.sqrt(tl.sum(own * own, 0)), 1e-12)
    unit = own / length
    cosine = tl.sum(unit * pull, 0)
    tl.store(cosine_out + row, cosine)
    slope = (unit * cosine - pull) * (2.0 / (tl.load(divisor) * length))
    tl.store(gradient_out + row * d + column, slope, mask=column < d)
