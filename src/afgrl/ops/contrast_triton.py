"""``info_nce`` on a GPU, in the manner of flash attention: no similarity ever reaches memory.

A program takes a tile of rows and walks over tiles of all rows. Forward it sums what they are alike; backward it
computes that once more and sums the rows themselves, weighted by it. Of rows wider than 256 that sum leaves registers
for small tiles only, or for none: their weights are written to memory, for a block of rows at a time, and cuBLAS
multiplies them, which at 512 columns takes half as long.

At first all rows of an encoder point nearly the same way, and their differences are less than bf16 resolves. So the
rows are taken from their mean m: with U = m + V a cosine less 1 is V_i·V_j + A_i + A_j, where A = V·m + (m·m - 1) / 2
is summed in float32, and only V is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import Precision
from afgrl.ops.rows_triton import DOT, INTERPRETED, WIDTH, padded_rows, tiled

MULTIPROCESSORS = 132  # of an H200; where there are others, more of them wait at the end
WIDEST = 256  # columns that a program holds at once, and of which it sums rows in its registers
WIDER = WIDEST + 1
BLOCK_BYTES = 512 << 20  # of the weights of wider rows at a time


@dataclass(frozen=True)
class Tiles:
    queries: int
    keys: int
    warps: int
    stages: int
    depth: int = 0  # columns in a step of the forward product; 0: all, and the queries stay in shared memory


# By the width of the padded rows, at least 128; those of WIDER serve all beyond WIDEST. All but those of float32
# compile for an H200 without a spill, in its 227 KB of shared memory; with 128 keys a product waits for the matrix
# units, with 64 as much for shared memory.
DENOMINATOR: dict[Precision, dict[int, Tiles]] = {
    "bf16": {
        # Two programs fit a multiprocessor: one multiplies while the other takes exponentials.
        128: Tiles(128, 128, warps=8, stages=2),
        256: Tiles(128, 128, warps=8, stages=2),
        WIDER: Tiles(128, 256, warps=8, stages=3, depth=64),
    },
    "tf32": {
        128: Tiles(128, 64, warps=8, stages=2),
        256: Tiles(128, 128, warps=4, stages=3, depth=32),
        WIDER: Tiles(128, 128, warps=4, stages=3, depth=32),
    },
    # Three products for one: more columns a step would not fit the registers. Backward some spill all the same.
    "float32": dict.fromkeys((128, 256, WIDER), Tiles(64, 64, warps=8, stages=3, depth=32)),
}
# The sum of the rows takes queries × width registers: at most half of what there are.
PUSH: dict[Precision, dict[int, Tiles]] = {
    "bf16": {
        128: Tiles(128, 128, warps=8, stages=3),
        256: Tiles(128, 64, warps=8, stages=3),
    },
    "tf32": {
        128: Tiles(128, 64, warps=8, stages=2),
        256: Tiles(64, 64, warps=8, stages=2),
    },
    "float32": {
        128: Tiles(64, 64, warps=8, stages=2),
        256: Tiles(64, 32, warps=8, stages=2),
    },
}


def denominator_kernel(unit: Tensor, temperature: float, precision: Precision, tiles: Tiles | None = None) -> Tensor:
    """Σ_j exp((cosine - 1) / τ) over all rows j but the own: [n]."""
    given = _from_mean(unit, precision, DENOMINATOR, tiles)
    return _summed(given, temperature, precision, slice(0, len(given.rows)))[: len(unit)]


def push_kernel(
    unit: Tensor, inverse: Tensor, temperature: float, precision: Precision, tiles: Tiles | None = None
) -> Tensor:
    """Σ_j exp((cosine - 1) / τ) (1/D_i + 1/D_j) U_j over all rows j but the own, of rows U and 1/D ``inverse``."""
    n, d = unit.shape
    on_chip = d <= WIDEST
    given = _from_mean(unit, precision, PUSH if on_chip else DENOMINATOR, tiles)
    push_of = _push_on_chip if on_chip else _push_by_blocks
    push, total = push_of(given, _filled(inverse, given.rows), temperature, precision)
    return torch.addcmul(push[:n, :d], total[:n, None], given.mean)


class _FromMean(NamedTuple):
    """m, V and A, as the head of this file has them."""

    mean: Tensor  # [d]
    rows: Tensor  # V in the dtype of the products, with zeros up to whole tiles
    offset: Tensor  # A, as long
    n: int  # rows that are no padding
    size: Tiles


def _push_on_chip(given: _FromMean, inverse: Tensor, temperature: float, precision: Precision) -> tuple[Tensor, Tensor]:
    """The weighted sum of the rows V and that of their weights."""
    rows, size = given.rows, given.size
    query_tiles, key_tiles = len(rows) // size.queries, len(rows) // size.keys
    splits = _splits(query_tiles, key_tiles)
    push = torch.empty(splits, *rows.shape, device=rows.device)
    total = torch.empty(splits, len(rows), device=rows.device)
    _push[(query_tiles, splits)](
        tiled(rows, size.queries, rows.shape[1]), tiled(rows, size.keys, rows.shape[1]),
        given.offset, inverse, push, total,
        math.log2(math.e) / temperature, given.n, len(rows), key_tiles, triton.cdiv(key_tiles, splits),
        DOT=DOT[precision], WIDEN=INTERPRETED, WIDTH=rows.shape[1],
        BLOCK_Q=size.queries, BLOCK_N=size.keys, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return push.sum(0), total.sum(0)


def _push_by_blocks(
    given: _FromMean, inverse: Tensor, temperature: float, precision: Precision
) -> tuple[Tensor, Tensor]:
    """The same for rows of any width."""
    rows, tile = given.rows, given.size.queries
    count = max(1, BLOCK_BYTES // (rows.element_size() * len(rows) * tile)) * tile
    weights = rows.new_empty(min(count, len(rows)), len(rows))
    push, total = rows.new_empty(rows.shape, dtype=torch.float32), torch.empty_like(given.offset)
    for start in range(0, len(rows), len(weights)):
        block = slice(start, min(start + len(weights), len(rows)))
        own = weights[: block.stop - start]
        total[block] = _summed(given, temperature, precision, block, inverse, own)
        push[block] = _product_in_float32(own, rows)
    return push, total


def _product_in_float32(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.bfloat16 and a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def _summed(
    given: _FromMean,
    temperature: float,
    precision: Precision,
    block: slice,
    inverse: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Σ_j of what a row of ``block`` is like row j; given 1/D, of that times 1/D_i + 1/D_j, left in ``weights``."""
    rows, size, count = given.rows, given.size, block.stop - block.start
    query_tiles, key_tiles = count // size.queries, len(rows) // size.keys
    splits = _splits(query_tiles, key_tiles)
    total = torch.empty(splits, count, device=rows.device)
    depth = size.depth or rows.shape[1]
    _row_sums[(query_tiles, splits)](
        tiled(rows, size.queries, depth), tiled(rows, size.keys, depth), given.offset, inverse,
        None if weights is None else tiled(weights, size.queries, size.keys), total,
        math.log2(math.e) / temperature, block.start, given.n, count, key_tiles, triton.cdiv(key_tiles, splits),
        DOT=DOT[precision], WIDEN=INTERPRETED, WIDTH=rows.shape[1], DEPTH=depth,
        BLOCK_Q=size.queries, BLOCK_N=size.keys, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return total.sum(0)


def _from_mean(
    unit: Tensor, precision: Precision, table: dict[Precision, dict[int, Tiles]], tiles: Tiles | None
) -> _FromMean:
    mean = unit.mean(0)
    centered = unit - mean
    offset = (centered * mean).sum(1) + (mean.square().sum() - 1) / 2
    d = unit.shape[1]
    if d <= WIDEST:  # held at once, which takes a power of two
        centered = F.pad(centered, (0, max(WIDTH, triton.next_power_of_2(d)) - d))
    size = tiles or table[precision][min(max(128, centered.shape[1]), WIDER)]
    rows, _ = padded_rows(centered, precision, multiple=max(size.queries, size.keys), unit=False)
    return _FromMean(mean, rows, _filled(offset, rows), len(unit), size)


def _filled(values: Tensor, rows: Tensor) -> Tensor:
    """With zeros up to the number of padded rows."""
    return F.pad(values, (0, rows.shape[0] - len(values)))


def _splits(query_tiles: int, key_tiles: int) -> int:
    """Into how many parts the keys go: as few as keep nine in ten multiprocessors busy to the end, else the best.

    At most 16, for each has sums of its own.
    """
    most = max(1, min(16, key_tiles // 4))
    rounds = [query_tiles * splits / MULTIPROCESSORS for splits in range(1, most + 1)]
    busy = [share / math.ceil(share) for share in rounds]
    return next((splits for splits, share in enumerate(busy, 1) if share >= 0.9), 1 + busy.index(max(busy)))


@triton.jit
def _row_sums(
    queries, keys, offset, inverse, weights, total_to, scale, begin, n, n_queries, key_tiles, tiles_each,
    DOT: tl.constexpr, WIDEN: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK_Q  # in the block of rows that begins at ``begin``
    first = begin + place
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
        value = _likeness(less_one, first, tile * BLOCK_N, scale, n, BLOCK_Q, BLOCK_N)
        if inverse is not None:
            value *= own_inverse[:, None] + tl.load(inverse + key)[None, :]
            weights.store([place, tile * BLOCK_N], value.to(weights.dtype))
        total += tl.sum(value, 1)
    tl.store(total_to + split * n_queries + place + tl.arange(0, BLOCK_Q), total)


@triton.jit
def _push(
    queries, keys, offset, inverse, push_to, total_to, scale, n, n_rows, key_tiles, tiles_each,
    DOT: tl.constexpr, WIDEN: tl.constexpr, WIDTH: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_Q
    split = tl.program_id(1)
    row = first + tl.arange(0, BLOCK_Q)
    q = queries.load([first, 0])
    own_offset, own = tl.load(offset + row), tl.load(inverse + row)
    push = tl.zeros([BLOCK_Q, WIDTH], tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    for tile in range(split * tiles_each, tl.minimum((split + 1) * tiles_each, key_tiles)):
        k = keys.load([tile * BLOCK_N, 0])
        key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        cosine = _product(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_N], tl.float32), DOT, WIDEN)
        less_one = cosine + (own_offset[:, None] + tl.load(offset + key)[None, :])
        weight = _likeness(less_one, first, tile * BLOCK_N, scale, n, BLOCK_Q, BLOCK_N)
        weight *= own[:, None] + tl.load(inverse + key)[None, :]
        total += tl.sum(weight, 1)
        push = _product(weight.to(k.dtype), k, push, DOT, WIDEN)
    at = (split * n_rows + row).to(tl.int64)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(push_to + at, push)
    tl.store(total_to + split * n_rows + row, total)


@triton.jit
def _product(a, b, total, DOT: tl.constexpr, WIDEN: tl.constexpr):
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, total, input_precision=DOT)


@triton.jit
def _likeness(less_one, first, first_key, scale, n, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr):
    """exp((cosine - 1) / τ); 0 of a row with itself, and with those that fill the last tile."""
    if ((first_key < first + BLOCK_Q) & (first_key + BLOCK_N > first)) | (first_key + BLOCK_N > n):
        row, key = first + tl.arange(0, BLOCK_Q), first_key + tl.arange(0, BLOCK_N)
        less_one = tl.where((key[None, :] != row[:, None]) & (key < n)[None, :], less_one, float("-inf"))
    return tl.exp2(less_one * scale)
