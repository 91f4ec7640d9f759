"""Lloyd's algorithm on a GPU: all restarts at once, three kernels per iteration, no tensor of size rows × centers.

The assignment is a product whose tiles are reduced to one label per row. The new centers are a product as well, of the
rows with ones and zeros computed from the labels: on matrix units that is faster than adding rows one by one, and
without atomics the result is the same in every call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.ops.dispatch import Precision
from afgrl.ops.kmeans.reference import KMeansResult
from afgrl.ops.streams import SideStream
from afgrl.ops.triton_rows import DOT, INTERPRETED, padded_rows, tiled

CENTERS = 128  # of a tile, or fewer if there are fewer
STREAMS = 5  # for groups of restarts
DEPTH = {"float32": 32, "tf32": 32, "bf16": 64}  # columns per step of the assignment's product


@dataclass(frozen=True)
class Tiles:
    """Sizes of both products, the fastest on an H200 of those that `benchmarks/tiles.py` tries."""

    assign_rows: int = 128
    assign_warps: int = 4
    assign_stages: int = 3
    sum_rows: int = 64
    sum_columns: int = 256
    sum_warps: int = 8
    sum_stages: int = 3
    sum_programs: int = 132  # at most, if there are enough rows: one for each multiprocessor of an H200


TILES: dict[Precision, Tiles] = {
    "bf16": Tiles(),
    "tf32": Tiles(assign_warps=8, sum_columns=128, sum_stages=2),
    "float32": Tiles(assign_rows=64, assign_stages=2, sum_columns=128, sum_stages=2),
}


def lloyd_triton(
    x: Tensor,
    centers: Tensor,
    n_iters: int,
    *,
    unit: bool = False,
    precision: Precision = "float32",
    tiles: Tiles | None = None,
) -> KMeansResult:
    """As ``lloyd_reference``; labels are int32."""
    size = tiles or TILES[precision]
    (n, _), (m, k, _) = x.shape, centers.shape
    rows, inverse = padded_rows(x, precision, multiple=max(size.assign_rows, size.sum_rows), unit=unit)
    tile = min(CENTERS, max(16, triton.next_power_of_2(k)))
    padded_k = triton.cdiv(k, tile) * tile
    work = _Work(
        rows=rows,
        centers=centers.clone(memory_format=torch.contiguous_format),
        labels=torch.empty(m, rows.shape[0], dtype=torch.int32, device=x.device),
        score=torch.empty(m, n, device=x.device),
        # The centers as the products read them; those that pad a tile must never be the nearest.
        flat=rows.new_zeros(m, padded_k, rows.shape[1]),
        half=torch.full((m, padded_k), 3e38, device=x.device),
    )
    # Groups of restarts in parallel: while the kernels of one group wait for each other, those of others run.
    n_streams = min(STREAMS, m)
    streams = [SideStream(x.device, 1 + number) for number in range(n_streams)]
    for number, stream in enumerate(streams):
        with stream:
            group = slice(number * m // n_streams, (number + 1) * m // n_streams)
            _lloyd(work.part(group), n_iters, precision, size, tile, m)
    for stream in streams:
        stream.join()
    return KMeansResult(work.labels[:, :n], work.centers, work.score, float(n) if unit else inverse.pow(-2).sum())


@dataclass(frozen=True)
class _Work:
    """The tensors of a group of restarts."""

    rows: Tensor  # [n_padded, width], shared by all groups
    centers: Tensor  # [m, k, d]
    labels: Tensor  # [m, n_padded] int32
    score: Tensor  # [m, n]
    flat: Tensor  # [m, padded_k, width] the centers as the products read them
    half: Tensor  # [m, padded_k] |c|²/2

    def part(self, restarts: slice) -> _Work:
        parts = (getattr(self, field.name)[restarts] for field in fields(self)[1:])
        return _Work(self.rows, *parts)


def _lloyd(work: _Work, n_iters: int, precision: Precision, size: Tiles, tile: int, all_restarts: int) -> None:
    rows, centers, labels, score, flat, half = (getattr(work, field.name) for field in fields(work))
    (n_padded, width), (m, k, d), n, padded_k = rows.shape, centers.shape, score.shape[1], flat.shape[1]
    columns = math.gcd(width, size.sum_columns)
    grid = (m * padded_k // tile, width // columns)
    parts = max(1, min(size.sum_programs * m // (all_restarts * grid[0] * grid[1]), n_padded // size.sum_rows))
    rows_each = triton.cdiv(n_padded // size.sum_rows, parts) * size.sum_rows
    sums = torch.empty(parts, m, padded_k, width, device=rows.device)
    members = torch.empty(parts, m, padded_k, device=rows.device)
    dot = {"DOT": DOT[precision], "WIDEN": INTERPRETED}

    def move(parts: int) -> None:
        _centers[(m * k,)](
            sums, members, centers, flat, half, k, d, padded_k, width, m * padded_k, PARTS=parts,
            BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip

    def assign() -> None:
        _assign[(n_padded // size.assign_rows, m)](
            tiled(rows, size.assign_rows, DEPTH[precision]), tiled(flat.view(-1, width), tile, DEPTH[precision]),
            half, labels, score, n, n_padded, k, padded_k, width, **dot,
            BLOCK_R=size.assign_rows, BLOCK_C=tile, BLOCK_D=DEPTH[precision],
            num_warps=size.assign_warps, num_stages=size.assign_stages,
        )  # fmt: skip

    move(0)
    assign()
    for _ in range(n_iters):
        _sums[(*grid, parts)](
            tiled(rows, size.sum_rows, columns), labels, sums, members,
            n, n_padded, rows_each, padded_k, width, m * padded_k, **dot,
            BLOCK_R=size.sum_rows, BLOCK_C=tile, BLOCK_D=columns,
            num_warps=size.sum_warps, num_stages=size.sum_stages,
        )  # fmt: skip
        move(parts)
        assign()


@triton.jit
def _assign(
    rows, flat, half, labels_out, score_out, n, n_padded, k, padded_k, width,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """The nearest center of a tile of rows in one restart, which has the largest x·c - |c|²/2."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    restart = tl.program_id(1)
    best = tl.full([BLOCK_R], float("-inf"), tl.float32)
    label = tl.zeros([BLOCK_R], tl.int32)
    for first in range(0, k, BLOCK_C):
        center = restart * padded_k + first + tl.arange(0, BLOCK_C)
        product = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
        for start in range(0, width, BLOCK_D):
            a = rows.load([tl.program_id(0) * BLOCK_R, start])
            b = flat.load([restart * padded_k + first, start])
            if WIDEN:
                a, b = a.to(tl.float32), b.to(tl.float32)
            product = tl.dot(a, tl.trans(b), product, input_precision=DOT)
        here, at = tl.max(product - tl.load(half + center)[None, :], 1, return_indices=True)
        label = tl.where(here > best, first + at, label)
        best = tl.maximum(here, best)
    tl.store(labels_out + restart * n_padded + row, label)
    tl.store(score_out + restart * n + row, best, mask=row < n)


@triton.jit
def _sums(
    rows, labels, sums_out, members_out, n, n_padded, rows_each, padded_k, width, all_centers,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Sums and counts over a part of the rows, for a tile of centers and a tile of columns."""
    tile, part = tl.program_id(0), tl.program_id(2)
    restart = tile * BLOCK_C // padded_k
    center = tile * BLOCK_C % padded_k + tl.arange(0, BLOCK_C)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros([BLOCK_C, BLOCK_D], tl.float32)
    members = tl.zeros([BLOCK_C, BLOCK_R], tl.int32)
    first, last = part * rows_each, tl.minimum((part + 1) * rows_each, n_padded)
    label_at = labels + restart * n_padded + tl.arange(0, BLOCK_R)
    label = tl.load(label_at + first, mask=first + tl.arange(0, BLOCK_R) < last, other=-1)
    for start in range(first, last, BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        # Loaded while this tile is multiplied.
        following = tl.load(label_at + start + BLOCK_R, mask=row + BLOCK_R < last, other=-1)
        belongs = (center[:, None] == label[None, :]) & (row < n)[None, :]
        x = rows.load([start, tl.program_id(1) * BLOCK_D])
        if WIDEN:
            x = x.to(tl.float32)
        total = tl.dot(belongs.to(x.dtype), x, total, input_precision=DOT)
        members += belongs.to(tl.int32)
        label = following
    at = part.to(tl.int64) * all_centers + tile * BLOCK_C + tl.arange(0, BLOCK_C)
    tl.store(sums_out + at[:, None] * width + column[None, :], total)
    if tl.program_id(1) == 0:
        tl.store(members_out + at, tl.sum(members, 1).to(tl.float32))


@triton.jit
def _centers(
    sums, members, centers, flat_out, half_out, k, d, padded_k, width, all_centers,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One new center from the sums of all parts (PARTS=0: the center stays), and its form for the product."""
    restart, at = tl.program_id(0) // k, tl.program_id(0) % k
    padded = restart * padded_k + at
    column = tl.arange(0, BLOCK)
    center_at = centers + tl.program_id(0).to(tl.int64) * d + column
    center = tl.load(center_at, mask=column < d, other=0.0)
    if PARTS > 0:
        total = tl.zeros([BLOCK], tl.float32)
        count = 0.0
        for part in range(PARTS):
            from_here = part * all_centers + padded
            total += tl.load(sums + from_here.to(tl.int64) * width + column, mask=column < width, other=0.0)
            count += tl.load(members + from_here)
        center = tl.where(count > 0, total / tl.maximum(count, 1.0), center)
        tl.store(center_at, center, mask=column < d)
    rounded = center.to(flat_out.dtype.element_ty)
    tl.store(flat_out + padded.to(tl.int64) * width + column, rounded, mask=column < width)
    # Of the rounded center, since rows are compared with that one.
    tl.store(half_out + padded, tl.sum(rounded.to(tl.float32) * rounded.to(tl.float32), 0) / 2)
