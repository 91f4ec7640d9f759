"""Nearest neighbors by cosine in blocks of rows, and the types that all versions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.ops.dispatch import Precision

BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 512 << 20}  # size of a block of similarities
MAX_KERNEL_NEIGHBORS = 64  # as many as the Triton kernel can hold in registers
Diagonal = Literal["keep", "first", "drop"]


@dataclass(frozen=True, eq=False)
class Neighbors:
    index: Tensor  # [q, k] int64, nearest first
    similarity: Tensor  # [q, k] float32, cosine


def nearest_neighbors_reference(
    query: Tensor, key: Tensor, k: int, diagonal: Diagonal, precision: Precision = "float32"
) -> Neighbors:
    """Computes all similarities of a block of queries and the best k of each row; always in the dtype of ``query``."""
    query, key = F.normalize(query), F.normalize(key)
    n_query, n_key = query.shape[0], key.shape[0]
    block = max(1, BLOCK_BYTES[query.device.type] // (4 * n_key))
    index = torch.empty(n_query, k, dtype=torch.int64, device=query.device)
    similarity = torch.empty(n_query, k, dtype=query.dtype, device=query.device)
    for start in range(0, n_query, block):
        rows = slice(start, min(start + block, n_query))
        cosine = query[rows] @ key.T  # [b, n_key]
        if diagonal != "keep":
            own = cosine.diagonal(start)  # a view of the entries (i, start + i)
            before = own.clone()
            own.fill_(torch.inf if diagonal == "first" else -torch.inf)
        torch.topk(cosine, k, dim=1, out=(similarity[rows], index[rows]))
        if diagonal == "first":
            similarity[rows, 0] = before
    return Neighbors(index, similarity)
