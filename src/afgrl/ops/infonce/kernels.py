# mypy: disallow-untyped-defs=False
"""The Triton kernels of InfoNCE; ``triton.py`` launches them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_sums_kernel(
    queries, keys, offset, inverse, weights, total_out, scale, begin, n, n_queries, key_tiles, tiles_each,
    DOT: tl.constexpr, WIDEN: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Row sums of E; with ``inverse``, those of the weights E_ij (1/D_i + 1/D_j), which are stored in ``weights``."""
    local = tl.program_id(0) * BLOCK_Q  # within the block of rows from ``begin`` on
    first = begin + local
    split = tl.program_id(1)
    total = tl.zeros([BLOCK_Q], tl.float32)
    own = tl.load(offset + first + tl.arange(0, BLOCK_Q))
    if inverse is not None:
        own_inverse = tl.load(inverse + first + tl.arange(0, BLOCK_Q))
    if DEPTH == WIDTH:
        q = queries.load([first, 0])
    for tile in range(split * tiles_each, tl.minimum((split + 1) * tiles_each, key_tiles)):
        cosine = tl.zeros([BLOCK_Q, BLOCK_N], tl.float32)
        if DEPTH == WIDTH:
            cosine = _product(q, tl.trans(keys.load([tile * BLOCK_N, 0])), cosine, DOT, WIDEN)
        else:
            for start in range(0, WIDTH, DEPTH):
                part = queries.load([first, start])
                cosine = _product(part, tl.trans(keys.load([tile * BLOCK_N, start])), cosine, DOT, WIDEN)
        key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        less_one = cosine + (own[:, None] + tl.load(offset + key)[None, :])
        value = _exponentials(less_one, first, tile * BLOCK_N, scale, n, BLOCK_Q, BLOCK_N)
        if inverse is not None:
            value *= own_inverse[:, None] + tl.load(inverse + key)[None, :]
            weights.store([local, tile * BLOCK_N], value.to(weights.dtype))
        total += tl.sum(value, 1)
    tl.store(total_out + split * n_queries + local + tl.arange(0, BLOCK_Q), total)


@triton.jit
def repulsion_kernel(
    queries, keys, offset, inverse, repulsion_out, total_out, scale, n, n_rows, key_tiles, tiles_each,
    DOT: tl.constexpr, WIDEN: tl.constexpr, WIDTH: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The sum of all rows weighted by E_ij (1/D_i + 1/D_j), and the sum of these weights."""
    first = tl.program_id(0) * BLOCK_Q
    split = tl.program_id(1)
    row = first + tl.arange(0, BLOCK_Q)
    q = queries.load([first, 0])
    own_offset, own = tl.load(offset + row), tl.load(inverse + row)
    repulsion = tl.zeros([BLOCK_Q, WIDTH], tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    for tile in range(split * tiles_each, tl.minimum((split + 1) * tiles_each, key_tiles)):
        k = keys.load([tile * BLOCK_N, 0])
        key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        cosine = _product(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_N], tl.float32), DOT, WIDEN)
        less_one = cosine + (own_offset[:, None] + tl.load(offset + key)[None, :])
        weight = _exponentials(less_one, first, tile * BLOCK_N, scale, n, BLOCK_Q, BLOCK_N)
        weight *= own[:, None] + tl.load(inverse + key)[None, :]
        total += tl.sum(weight, 1)
        repulsion = _product(weight.to(k.dtype), k, repulsion, DOT, WIDEN)
    at = (split * n_rows + row).to(tl.int64)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(repulsion_out + at, repulsion)
    tl.store(total_out + split * n_rows + row, total)


@triton.jit
def _product(a, b, total, DOT: tl.constexpr, WIDEN: tl.constexpr):
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, total, input_precision=DOT)


@triton.jit
def _exponentials(less_one, first, first_key, scale, n, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr):
    """exp((cosine - 1) / τ); 0 for a row with itself and with the padding of the last tile."""
    if ((first_key < first + BLOCK_Q) & (first_key + BLOCK_N > first)) | (first_key + BLOCK_N > n):
        row, key = first + tl.arange(0, BLOCK_Q), first_key + tl.arange(0, BLOCK_N)
        less_one = tl.where((key[None, :] != row[:, None]) & (key < n)[None, :], less_one, float("-inf"))
    return tl.exp2(less_one * scale)
