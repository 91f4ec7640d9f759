"""Exact nearest neighbors by cosine, without an [n, n] matrix at any size."""

from __future__ import annotations

from torch import Tensor

from afgrl.errors import UserError
from afgrl.ops.collectives import ONE_PROCESS, Shards
from afgrl.ops.dispatch import Precision, takes_kernels
from afgrl.ops.knn.reference import (
    BLOCK_BYTES,
    MAX_KERNEL_NEIGHBORS,
    Diagonal,
    Neighbors,
    nearest_neighbors_reference,
)
from afgrl.ops.knn.ring import ring_neighbors

__all__ = ["BLOCK_BYTES", "Diagonal", "Neighbors", "nearest_neighbors"]


def nearest_neighbors(
    query: Tensor, key: Tensor, k: int, *, diagonal: Diagonal = "keep", precision: Precision = "float32",
    shards: Shards = ONE_PROCESS,
) -> Neighbors:  # fmt: skip
    """The ``k`` rows of ``key`` nearest to each row of ``query`` by cosine, nearest first.

    ``diagonal`` treats key i as a neighbor of query i: ``keep`` ranks it like any other, ``first`` puts it first
    whatever its similarity and counts it among the k, ``drop`` excludes it. ``precision`` is that of the products that
    select neighbors on a GPU; returned similarities are float32. The kernel there holds up to 64 neighbors; for more,
    the reference runs. With several processes, row i of queries and keys belongs to node i, and they are those of this
    process.
    """
    if diagonal != "keep" and query.shape[0] != key.shape[0]:
        raise UserError(
            f"diagonal={diagonal!r} needs as many queries as keys, not {query.shape[0]} and {key.shape[0]}."
        )
    most = (shards.n if shards.distributed else key.shape[0]) - (diagonal == "drop")
    if not 1 <= k <= most:
        raise UserError(f"The number of neighbors must be between 1 and {most}, not {k}.")
    if shards.distributed:
        return ring_neighbors(query, key, k, diagonal, shards)
    if k <= MAX_KERNEL_NEIGHBORS and takes_kernels(query):
        from afgrl.ops.knn.triton import nearest_neighbors_triton

        return nearest_neighbors_triton(query, key, k, diagonal, precision)
    return nearest_neighbors_reference(query, key, k, diagonal, precision)
