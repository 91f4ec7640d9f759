"""InfoNCE on a GPU in the manner of flash attention: no similarity is written to memory.

A program has a tile of rows and loops over tiles of all rows. Forward it sums the exponentials E; backward it computes
them again and sums the rows weighted by them. For rows wider than 256, that sum leaves registers for small tiles only,
or for none: the weights are written to memory, for a block of rows at a time, and multiplied by cuBLAS, which takes
half as long at 512 columns.

Before training, all rows of an encoder have nearly the same direction, and their differences are below the resolution
of bf16. So the mean m is subtracted: with U = m + V, a cosine minus 1 is V_i·V_j + A_i + A_j, where
A = V·m + (m·m - 1) / 2 is summed in float32, and only V is rounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import Precision
from afgrl.ops.infonce.kernels import repulsion_kernel, row_sums_kernel
from afgrl.ops.infonce.tiles import DENOMINATOR, MAX_REGISTER_WIDTH, REPULSION, WIDER, Tiles
from afgrl.ops.triton_rows import DOT, INTERPRETED, WIDTH, padded_rows, tiled

MULTIPROCESSORS = 132  # of an H200; with another number, more of them wait at the end
BLOCK_BYTES = 512 << 20  # size of a block of weights of wide rows


def denominator_triton(
    unit: Tensor, temperature: float, precision: Precision = "float32", tiles: Tiles | None = None
) -> Tensor:
    """As ``denominator_cpu``."""
    centered = _centered(unit, precision, DENOMINATOR, tiles)
    return _row_sums(centered, temperature, precision, slice(0, len(centered.rows)))[: len(unit)]


def repulsion_triton(
    unit: Tensor, inverse: Tensor, temperature: float, precision: Precision = "float32", tiles: Tiles | None = None
) -> Tensor:
    """As ``repulsion_cpu``."""
    n, d = unit.shape
    fits = d <= MAX_REGISTER_WIDTH
    centered = _centered(unit, precision, REPULSION if fits else DENOMINATOR, tiles)
    weighted_sum = _weighted_sum_in_registers if fits else _weighted_sum_by_blocks
    rows, total = weighted_sum(centered, _padded(inverse, centered.rows), temperature, precision)
    return torch.addcmul(rows[:n, :d], total[:n, None], centered.mean)


class _Centered(NamedTuple):
    """m, V and A as defined at the top of this file."""

    mean: Tensor  # m: [d]
    rows: Tensor  # V: [n_padded, width] in the dtype of the products, padded with zeros to whole tiles
    offset: Tensor  # A: [n_padded]
    n: int  # rows without padding
    size: Tiles


def _weighted_sum_in_registers(
    centered: _Centered, inverse: Tensor, temperature: float, precision: Precision
) -> tuple[Tensor, Tensor]:
    """Σ_j w_ij V_j and Σ_j w_ij with the weights w_ij = E_ij (1/D_i + 1/D_j): [n_padded, width] and [n_padded]."""
    rows, size = centered.rows, centered.size
    query_tiles, key_tiles = len(rows) // size.queries, len(rows) // size.keys
    splits = _splits(query_tiles, key_tiles)
    weighted = torch.empty(splits, *rows.shape, device=rows.device)
    total = torch.empty(splits, len(rows), device=rows.device)
    repulsion_kernel[(query_tiles, splits)](
        tiled(rows, size.queries, rows.shape[1]), tiled(rows, size.keys, rows.shape[1]),
        centered.offset, inverse, weighted, total,
        math.log2(math.e) / temperature, centered.n, len(rows), key_tiles, triton.cdiv(key_tiles, splits),
        DOT=DOT[precision], WIDEN=INTERPRETED, WIDTH=rows.shape[1],
        BLOCK_Q=size.queries, BLOCK_N=size.keys, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return weighted.sum(0), total.sum(0)


def _weighted_sum_by_blocks(
    centered: _Centered, inverse: Tensor, temperature: float, precision: Precision
) -> tuple[Tensor, Tensor]:
    """The same for rows of any width, with the weights in memory."""
    rows, tile = centered.rows, centered.size.queries
    count = max(1, BLOCK_BYTES // (rows.element_size() * len(rows) * tile)) * tile
    weights = rows.new_empty(min(count, len(rows)), len(rows))
    weighted, total = rows.new_empty(rows.shape, dtype=torch.float32), torch.empty_like(centered.offset)
    for start in range(0, len(rows), len(weights)):
        block = slice(start, min(start + len(weights), len(rows)))
        own = weights[: block.stop - start]
        total[block] = _row_sums(centered, temperature, precision, block, inverse, own)
        weighted[block] = _product_in_float32(own, rows)
    return weighted, total


def _product_in_float32(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.bfloat16 and a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def _row_sums(
    centered: _Centered,
    temperature: float,
    precision: Precision,
    block: slice,
    inverse: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Σ_j E_ij for the rows i of ``block``: [b]. With 1/D in ``inverse``, Σ_j w_ij, and w is written to ``weights``."""
    rows, size, count = centered.rows, centered.size, block.stop - block.start
    query_tiles, key_tiles = count // size.queries, len(rows) // size.keys
    splits = _splits(query_tiles, key_tiles)
    total = torch.empty(splits, count, device=rows.device)
    depth = size.depth or rows.shape[1]
    row_sums_kernel[(query_tiles, splits)](
        tiled(rows, size.queries, depth), tiled(rows, size.keys, depth), centered.offset, inverse,
        None if weights is None else tiled(weights, size.queries, size.keys), total,
        math.log2(math.e) / temperature, block.start, centered.n, count, key_tiles, triton.cdiv(key_tiles, splits),
        DOT=DOT[precision], WIDEN=INTERPRETED, WIDTH=rows.shape[1], DEPTH=depth,
        BLOCK_Q=size.queries, BLOCK_N=size.keys, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return total.sum(0)


def _centered(
    unit: Tensor, precision: Precision, table: dict[Precision, dict[int, Tiles]], tiles: Tiles | None
) -> _Centered:
    mean = unit.mean(0)
    centered = unit - mean
    offset = (centered * mean).sum(1) + (mean.square().sum() - 1) / 2
    d = unit.shape[1]
    if d <= MAX_REGISTER_WIDTH:  # held at once, which requires a power of two
        centered = F.pad(centered, (0, max(WIDTH, triton.next_power_of_2(d)) - d))
    size = tiles or table[precision][min(max(128, centered.shape[1]), WIDER)]
    rows, _ = padded_rows(centered, precision, multiple=max(size.queries, size.keys), unit=False)
    return _Centered(mean, rows, _padded(offset, rows), len(unit), size)


def _padded(values: Tensor, rows: Tensor) -> Tensor:
    """Padded with zeros to the number of padded rows: [n_padded]."""
    return F.pad(values, (0, rows.shape[0] - len(values)))


def _splits(query_tiles: int, key_tiles: int) -> int:
    """Number of parts the keys are split into: the smallest that keeps 90 % of the multiprocessors busy, else the best.

    At most 16, since each part needs memory for its sums.
    """
    most = max(1, min(16, key_tiles // 4))
    rounds = [query_tiles * splits / MULTIPROCESSORS for splits in range(1, most + 1)]
    busy = [share / math.ceil(share) for share in rounds]
    return next((splits for splits, share in enumerate(busy, 1) if share >= 0.9), 1 + busy.index(max(busy)))
