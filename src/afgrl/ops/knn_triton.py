"""``knn`` on a GPU: similarity and selection in one kernel, so that no similarity ever reaches memory.

A program takes a tile of queries and walks over tiles of keys. It keeps the best few of each query in registers and
looks at a tile of similarities only as often as some query finds a better one in it: about once, after the first few.
What is kept is then measured again in float32, so that a coarse product decides at most who is among the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.errors import AfgrlError
from afgrl.ops.dispatch import Precision
from afgrl.ops.knn import KERNEL_HOLDS, Diagonal
from afgrl.ops.rows_triton import DOT, INTERPRETED, padded_rows, tiled


@dataclass(frozen=True)
class Tiles:
    queries: int
    keys: int  # a power of two: its bits hold the position in a tile, below those of the similarity
    depth: int
    warps: int
    stages: int


# The fastest on an H200 of those that `benchmarks/tiles.py` tries: for rows narrower than WIDE, where looking for the
# best takes as long as the product, and for wider ones, where it does not.
TILES: dict[Precision, tuple[Tiles, Tiles]] = {
    "bf16": (Tiles(64, 128, 64, warps=4, stages=3), Tiles(128, 256, 64, warps=8, stages=3)),
    "tf32": (Tiles(128, 128, 32, warps=4, stages=3), Tiles(128, 128, 32, warps=4, stages=3)),
    "float32": (Tiles(64, 64, 32, warps=4, stages=2), Tiles(64, 64, 32, warps=4, stages=2)),
}
WIDE = 1024
PROGRAMS = 264  # at least, where there is work for so many: two for each multiprocessor of an H200


def knn_kernel(
    query: Tensor, key: Tensor, k: int, diagonal: Diagonal, precision: Precision, tiles: Tiles | None = None
) -> tuple[Tensor, Tensor]:
    """Index [q, k] int64 and cosine [q, k] of the k nearest keys, nearest first."""
    if k > KERNEL_HOLDS:
        raise AfgrlError(f"The k-NN kernel holds up to {KERNEL_HOLDS} neighbors, not {k}.")
    size = tiles or TILES[precision][query.shape[1] >= WIDE]
    query, key = query.contiguous(), key.contiguous()
    n_query, n_key = query.shape[0], key.shape[0]
    index = torch.empty(n_query, k, dtype=torch.int64, device=query.device)
    similarity = torch.empty(n_query, k, device=query.device)
    first = diagonal == "first"
    # A slot or more to spare: the float32 comparison then decides between those that are nearly as near.
    slots = triton.next_power_of_2(max(k - first, 1) + (k <= KERNEL_HOLDS // 4))
    queries, query_inverse = padded_rows(query, precision, multiple=size.queries, unit=True)
    keys, key_inverse = padded_rows(key, precision, multiple=size.keys, unit=True)
    query_tiles, key_tiles = queries.shape[0] // size.queries, keys.shape[0] // size.keys
    splits = max(1, min(triton.cdiv(PROGRAMS, query_tiles), key_tiles // 4, 16))
    tiles_each = triton.cdiv(key_tiles, splits)
    found = torch.empty(queries.shape[0], splits, slots, dtype=torch.int32, device=query.device)
    place = torch.empty_like(found)
    _search[(query_tiles, splits)](
        tiled(queries, size.queries, size.depth), tiled(keys, size.keys, size.depth), found, place,
        n_key, keys.shape[1], key_tiles, tiles_each, splits,
        SLOTS=slots, SKIP_OWN=diagonal != "keep", DOT=DOT[precision], WIDEN=INTERPRETED,
        BLOCK_Q=size.queries, BLOCK_N=size.keys, BLOCK_D=size.depth, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    wide = max(16, min(triton.next_power_of_2(query.shape[1]), 256))
    rows = 64 if INTERPRETED else max(1, 2048 // (slots * wide))
    _finish[(triton.cdiv(n_query, rows),)](
        query, key, query_inverse, key_inverse, found, place, index, similarity,
        n_query, query.shape[1], query.stride(0), key.stride(0), splits * slots,
        K=k, SLOTS=slots, CANDIDATES=triton.next_power_of_2(splits * slots), OWN_FIRST=int(first),
        ROWS=rows, BLOCK_D=wide, num_warps=4,
    )  # fmt: skip
    return index, similarity


@triton.jit
def _search(
    queries, keys, found_to, place_to, n_key, width, key_tiles, tiles_each, splits,
    SLOTS: tl.constexpr, SKIP_OWN: tl.constexpr, DOT: tl.constexpr, WIDEN: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The SLOTS keys nearest to each query among the tiles of one split, in any order.

    A similarity plus 2 is a positive number, whose bits order like it. Its lowest bits are given to the position in
    the tile (or to the slot), so that one maximum tells both who is best and where. They cost 2⁻¹⁵ of precision.
    """
    LOW: tl.constexpr = BLOCK_N - 1
    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    split = tl.program_id(1)
    slot = tl.arange(0, SLOTS)
    column = tl.arange(0, BLOCK_N)
    found = tl.zeros([BLOCK_Q, SLOTS], tl.int32) + slot[None, :]
    place = tl.full([BLOCK_Q, SLOTS], -1, tl.int32)
    worst = tl.min(found, 1)
    for tile in range(split * tiles_each, tl.minimum((split + 1) * tiles_each, key_tiles)):
        key = tile * BLOCK_N + column
        cosine = tl.full([BLOCK_Q, BLOCK_N], 2.0, tl.float32)
        for start in range(0, width, BLOCK_D):
            a = queries.load([tl.program_id(0) * BLOCK_Q, start])
            b = keys.load([tile * BLOCK_N, start])
            if WIDEN:
                a, b = a.to(tl.float32), b.to(tl.float32)
            cosine = tl.dot(a, tl.trans(b), cosine, input_precision=DOT)
        packed = (cosine.to(tl.int32, bitcast=True) & ~LOW) | (LOW - column)[None, :]
        if (tile + 1) * BLOCK_N > n_key:
            packed = tl.where((key < n_key)[None, :], packed, 0)
        if SKIP_OWN:
            first_row = tl.program_id(0) * BLOCK_Q
            if (tile * BLOCK_N < first_row + BLOCK_Q) & ((tile + 1) * BLOCK_N > first_row):
                packed = tl.where(key[None, :] != row[:, None], packed, 0)
        best = tl.max(packed, 1)
        while tl.max(((best & ~LOW) > (worst & ~LOW)).to(tl.int32), 0) > 0:
            better = (best & ~LOW) > (worst & ~LOW)
            here = better[:, None] & (slot[None, :] == (worst & LOW)[:, None])
            found = tl.where(here, (best & ~LOW)[:, None] | slot[None, :], found)
            place = tl.where(here, (tile * BLOCK_N + LOW - (best & LOW))[:, None], place)
            worst = tl.min(found, 1)
            packed = tl.where(packed == best[:, None], 0, packed)
            best = tl.max(packed, 1)
    at = (row.to(tl.int64)[:, None] * splits + split) * SLOTS + slot[None, :]
    tl.store(found_to + at, found)
    tl.store(place_to + at, place)


@triton.jit
def _finish(
    query, key, query_inverse, key_inverse, found_from, place_from, index_to, similarity_to,
    n_query, d, query_stride, key_stride, n_candidates,
    K: tl.constexpr, SLOTS: tl.constexpr, CANDIDATES: tl.constexpr, OWN_FIRST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The best SLOTS candidates of all splits of a query, measured in float32, and of those the nearest K."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < n_query
    slot = tl.arange(0, SLOTS)[None, :]
    candidate = tl.arange(0, CANDIDATES)[None, :]
    at = row[:, None] * n_candidates + candidate
    known = inside[:, None] & (candidate < n_candidates)
    found = tl.load(found_from + at, mask=known, other=0)
    place = tl.load(place_from + at, mask=known, other=-1)
    chosen = tl.full([ROWS, SLOTS], -1, tl.int32)
    for taken in range(SLOTS):
        best = (candidate == tl.argmax(found, 1)[:, None]) & (place >= 0)
        chosen = tl.where(slot == taken, tl.max(tl.where(best, place, -1), 1)[:, None], chosen)
        found = tl.where(best, 0, found)
        place = tl.where(best, -1, place)
    real = chosen >= 0
    product = tl.zeros([ROWS, SLOTS], tl.float32)
    own = tl.zeros([ROWS], tl.float32)
    for start in range(0, d, BLOCK_D):
        column = start + tl.arange(0, BLOCK_D)
        whole = inside[:, None] & (column < d)[None, :]
        a = tl.load(query + row[:, None] * query_stride + column[None, :], mask=whole, other=0.0)
        rows = key + chosen.to(tl.int64)[:, :, None] * key_stride + column[None, None, :]
        b = tl.load(rows, mask=real[:, :, None] & (column < d)[None, None, :], other=0.0)
        product += tl.sum(a[:, None, :] * b, 2)
        if OWN_FIRST:
            own += tl.sum(a * tl.load(key + row[:, None] * key_stride + column[None, :], mask=whole, other=0.0), 1)
    scale = tl.load(query_inverse + row, mask=inside, other=0.0)
    cosine = product * scale[:, None] * tl.load(key_inverse + chosen, mask=real, other=0.0)
    cosine = tl.where(real, cosine, float("-inf"))
    # Of a training that diverged: not a number is never the largest, so that a slot would be taken twice.
    cosine = tl.where(cosine == cosine, cosine, -1.5)
    if OWN_FIRST:
        tl.store(index_to + row * K, row, mask=inside)
        tl.store(similarity_to + row * K, own * scale * tl.load(key_inverse + row, mask=inside), mask=inside)
    for rank in range(OWN_FIRST, K):
        best = slot == tl.argmax(cosine, 1)[:, None]
        tl.store(index_to + row * K + rank, tl.max(tl.where(best, chosen, 0), 1).to(tl.int64), mask=inside)
        tl.store(similarity_to + row * K + rank, tl.max(cosine, 1), mask=inside)
        # Below every cosine, yet above a slot that never held a key.
        cosine = tl.where(best, -2.0, cosine)
        chosen = tl.where(best, -1, chosen)
