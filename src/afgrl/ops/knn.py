"""Nearest neighbors by cosine, exactly, in blocks of rows: no [n, n] matrix at any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.ops.dispatch import Precision, takes_kernels

BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 512 << 20}  # of similarities at a time
KERNEL_HOLDS = 64  # neighbors, in registers
Diagonal = Literal["keep", "first", "drop"]


@dataclass(frozen=True, eq=False)
class Neighbors:
    index: Tensor  # [q, k] int64, nearest first
    similarity: Tensor  # [q, k] float32, cosine


def knn(
    query: Tensor, key: Tensor, k: int, *, diagonal: Diagonal = "keep", precision: Precision = "float32"
) -> Neighbors:
    """The ``k`` rows of ``key`` nearest to each row of ``query`` by cosine, nearest first.

    ``diagonal`` says what becomes of key i among the neighbors of query i: ``keep`` ranks it like any
    other, ``first`` puts it first whatever its similarity and counts it among the k, ``drop`` leaves it out.
    ``precision`` is that of the products which choose them on a GPU; the similarities returned are float32. The
    kernel there holds up to 64 neighbors; more are found by the reference.
    """
    if diagonal != "keep" and query.shape[0] != key.shape[0]:
        raise UserError("A row has a neighbor of its own number only if queries and keys are equally many.")
    most = key.shape[0] - (diagonal == "drop")
    if not 1 <= k <= most:
        raise UserError(f"{k} neighbors were asked for, but 1 to {most} are possible.")
    if k <= KERNEL_HOLDS and takes_kernels(query):
        from afgrl.ops.knn_triton import knn_kernel

        return Neighbors(*knn_kernel(query.float(), key.float(), k, diagonal, precision))
    return knn_reference(F.normalize(query), F.normalize(key), k, diagonal)


def knn_reference(query: Tensor, key: Tensor, k: int, diagonal: Diagonal) -> Neighbors:
    """The same on rows of unit length: block by block, the similarities and the best k of each row."""
    n_query, n_key = query.shape[0], key.shape[0]
    block = max(1, BLOCK_BYTES[query.device.type] // (4 * n_key))
    index = torch.empty(n_query, k, dtype=torch.int64, device=query.device)
    similarity = torch.empty(n_query, k, dtype=query.dtype, device=query.device)
    for start in range(0, n_query, block):
        rows = slice(start, min(start + block, n_query))
        cosine = query[rows] @ key.T  # [b, n_key]
        if diagonal != "keep":
            own = cosine.diagonal(start)  # a view: entry (i, start + i)
            before = own.clone()
            own.fill_(torch.inf if diagonal == "first" else -torch.inf)
        torch.topk(cosine, k, dim=1, out=(similarity[rows], index[rows]))
        if diagonal == "first":
            similarity[rows, 0] = before
    return Neighbors(index, similarity)
