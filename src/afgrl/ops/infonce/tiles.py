"""Tile sizes of the InfoNCE kernels."""

from __future__ import annotations

from dataclasses import dataclass

from afgrl.ops.dispatch import Precision

MAX_REGISTER_WIDTH = 256  # columns that a program holds at once, and whose weighted sum it keeps in registers
WIDER = MAX_REGISTER_WIDTH + 1  # key of the sizes for all wider rows


@dataclass(frozen=True)
class Tiles:
    queries: int
    keys: int
    warps: int
    stages: int
    depth: int = 0  # columns per step of the forward product; 0: all, and the queries stay in shared memory


# By the width of the padded rows, at least 128. All except those of float32 compile for an H200 without register spills
# and within its 227 KB of shared memory. With 128 keys, a product is limited by the matrix units, with 64 as much by
# shared memory.
DENOMINATOR: dict[Precision, dict[int, Tiles]] = {
    "bf16": {
        # Two programs fit a multiprocessor: one multiplies while the other computes exponentials.
        128: Tiles(128, 128, warps=8, stages=2),
        256: Tiles(128, 128, warps=8, stages=2),
        WIDER: Tiles(128, 256, warps=8, stages=3, depth=64),
    },
    "tf32": {
        128: Tiles(128, 64, warps=8, stages=2),
        256: Tiles(128, 128, warps=4, stages=3, depth=32),
        WIDER: Tiles(128, 128, warps=4, stages=3, depth=32),
    },
    # A product takes three tf32 products: more columns per step would not fit the registers. Some backward tiles
    # spill nevertheless.
    "float32": dict.fromkeys((128, 256, WIDER), Tiles(64, 64, warps=8, stages=3, depth=32)),
}
# The weighted sum takes queries × width registers: at most half of all.
REPULSION: dict[Precision, dict[int, Tiles]] = {
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
