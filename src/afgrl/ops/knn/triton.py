"""Nearest neighbors on a GPU: similarity and selection in one kernel, so that no similarity is written to memory.

A program has a tile of queries and loops over tiles of keys. It keeps the best candidates of each query in registers,
and scans a tile of similarities only as long as some query finds a better key in it: about once per tile, after the
first few tiles. The similarities of the candidates are then computed again in float32, so that a low precision only
affects which keys become candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from afgrl.errors import AfgrlError
from afgrl.ops.dispatch import Precision
from afgrl.ops.knn.reference import MAX_KERNEL_NEIGHBORS, Diagonal, Neighbors
from afgrl.ops.triton_rows import DOT, INTERPRETED, padded_rows, tiled


@dataclass(frozen=True)
class Tiles:
    queries: int
    keys: int  # a power of two: the low bits of a packed similarity hold the position in the tile
    depth: int  # columns per step of the product
    warps: int
    stages: int


# The fastest on an H200 of those that `benchmarks/tiles.py` tries: for rows narrower than WIDE, for which the selection
# takes as long as the product, and for wider ones.
TILES: dict[Precision, tuple[Tiles, Tiles]] = {
    "bf16": (Tiles(64, 128, 64, warps=4, stages=3), Tiles(128, 256, 64, warps=8, stages=3)),
    "tf32": (Tiles(128, 128, 32, warps=4, stages=3), Tiles(128, 128, 32, warps=4, stages=3)),
    "float32": (Tiles(64, 64, 32, warps=4, stages=2), Tiles(64, 64, 32, warps=4, stages=2)),
}
WIDE = 1024
PROGRAMS = 264  # at least, if there is enough work: two for each multiprocessor of an H200


def nearest_neighbors_triton(
    query: Tensor, key: Tensor, k: int, diagonal: Diagonal, precision: Precision = "float32", tiles: Tiles | None = None
) -> Neighbors:
    """As ``nearest_neighbors_reference``, for up to 64 neighbors."""
    if k > MAX_KERNEL_NEIGHBORS:
        raise AfgrlError(f"The k-NN kernel holds up to {MAX_KERNEL_NEIGHBORS} neighbors, not {k}.")
    size = tiles or TILES[precision][query.shape[1] >= WIDE]
    query, key = query.float().contiguous(), key.float().contiguous()
    n_query, n_key = query.shape[0], key.shape[0]
    index = torch.empty(n_query, k, dtype=torch.int64, device=query.device)
    similarity = torch.empty(n_query, k, device=query.device)
    first = diagonal == "first"
    # At least one spare slot: the float32 comparison then decides between candidates of nearly equal similarity.
    slots = triton.next_power_of_2(max(k - first, 1) + (k <= MAX_KERNEL_NEIGHBORS // 4))
    queries, query_inverse = padded_rows(query, precision, multiple=size.queries, unit=True)
    keys, key_inverse = padded_rows(key, precision, multiple=size.keys, unit=True)
    query_tiles, key_tiles = queries.shape[0] // size.queries, keys.shape[0] // size.keys
    splits = max(1, min(triton.cdiv(PROGRAMS, query_tiles), key_tiles // 4, 16))
    tiles_each = triton.cdiv(key_tiles, splits)
    packed = torch.empty(queries.shape[0], splits, slots, dtype=torch.int32, device=query.device)
    candidates = torch.empty_like(packed)  # the key of each slot
    _search[(query_tiles, splits)](
        tiled(queries, size.queries, size.depth), tiled(keys, size.keys, size.depth), packed, candidates,
        n_key, keys.shape[1], key_tiles, tiles_each, splits,
        SLOTS=slots, SKIP_OWN=diagonal != "keep", DOT=DOT[precision], WIDEN=INTERPRETED,
        BLOCK_Q=size.queries, BLOCK_N=size.keys, BLOCK_D=size.depth, num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    wide = max(16, min(triton.next_power_of_2(query.shape[1]), 256))
    rows = 64 if INTERPRETED else max(1, 2048 // (slots * wide))
    _finish[(triton.cdiv(n_query, rows),)](
        query, key, query_inverse, key_inverse, packed, candidates, index, similarity,
        n_query, query.shape[1], query.stride(0), key.stride(0), splits * slots,
        K=k, SLOTS=slots, CANDIDATES=triton.next_power_of_2(splits * slots), OWN_FIRST=int(first),
        ROWS=rows, BLOCK_D=wide, num_warps=4,
    )  # fmt: skip
    return Neighbors(index, similarity)


@triton.jit
def _search(
    queries, keys, packed_out, candidates_out, n_key, width, key_tiles, tiles_each, splits,
    SLOTS: tl.constexpr, SKIP_OWN: tl.constexpr, DOT: tl.constexpr, WIDEN: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The SLOTS keys nearest to each query among the tiles of one split, in any order.

    A similarity plus 2 is a positive number, whose bits order like the number. Its lowest bits are replaced by the
    position in the tile (or by the slot), so that one maximum gives both the best similarity and its position. This
    costs 2⁻¹⁵ of precision.
    """
    LOW: tl.constexpr = BLOCK_N - 1
    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    split = tl.program_id(1)
    slot = tl.arange(0, SLOTS)
    column = tl.arange(0, BLOCK_N)
    kept = tl.zeros([BLOCK_Q, SLOTS], tl.int32) + slot[None, :]
    candidates = tl.full([BLOCK_Q, SLOTS], -1, tl.int32)
    worst = tl.min(kept, 1)
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
            kept = tl.where(here, (best & ~LOW)[:, None] | slot[None, :], kept)
            candidates = tl.where(here, (tile * BLOCK_N + LOW - (best & LOW))[:, None], candidates)
            worst = tl.min(kept, 1)
            packed = tl.where(packed == best[:, None], 0, packed)
            best = tl.max(packed, 1)
    at = (row.to(tl.int64)[:, None] * splits + split) * SLOTS + slot[None, :]
    tl.store(packed_out + at, kept)
    tl.store(candidates_out + at, candidates)


@triton.jit
def _finish(
    query, key, query_inverse, key_inverse, packed_in, candidates_in, index_out, similarity_out,
    n_query, d, query_stride, key_stride, n_candidates,
    K: tl.constexpr, SLOTS: tl.constexpr, CANDIDATES: tl.constexpr, OWN_FIRST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The best SLOTS candidates of all splits of a query, compared in float32, and the nearest K of these."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < n_query
    slot = tl.arange(0, SLOTS)[None, :]
    candidate = tl.arange(0, CANDIDATES)[None, :]
    at = row[:, None] * n_candidates + candidate
    known = inside[:, None] & (candidate < n_candidates)
    packed = tl.load(packed_in + at, mask=known, other=0)
    candidates = tl.load(candidates_in + at, mask=known, other=-1)
    chosen = tl.full([ROWS, SLOTS], -1, tl.int32)
    for taken in range(SLOTS):
        best = (candidate == tl.argmax(packed, 1)[:, None]) & (candidates >= 0)
        chosen = tl.where(slot == taken, tl.max(tl.where(best, candidates, -1), 1)[:, None], chosen)
        packed = tl.where(best, 0, packed)
        candidates = tl.where(best, -1, candidates)
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
    # If training diverged: NaN is never the largest, so that a slot would be selected twice.
    cosine = tl.where(cosine == cosine, cosine, -1.5)
    if OWN_FIRST:
        tl.store(index_out + row * K, row, mask=inside)
        tl.store(similarity_out + row * K, own * scale * tl.load(key_inverse + row, mask=inside), mask=inside)
    for rank in range(OWN_FIRST, K):
        best = slot == tl.argmax(cosine, 1)[:, None]
        tl.store(index_out + row * K + rank, tl.max(tl.where(best, chosen, 0), 1).to(tl.int64), mask=inside)
        tl.store(similarity_out + row * K + rank, tl.max(cosine, 1), mask=inside)
        # Below every cosine, but above an empty slot.
        cosine = tl.where(best, -2.0, cosine)
        chosen = tl.where(best, -1, chosen)
