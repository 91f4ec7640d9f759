"""Whether the nearest rows of an embedding belong to the same class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate import rows
from afgrl.ops import knn, unit_rows

SPARSE_BLOCK_BYTES = 64 << 20  # of similarities at a time


def similarity_scores(embedding: Any, y: Any, ks: Sequence[int] = (5, 10)) -> dict[str, float]:
    """``sim@k``: the share, over all nodes, of the k nearest others by cosine that have the node's class.

    A graph with k nodes or fewer uses all the others.
    """
    x, classes = rows.checked(embedding, y)
    n = x.shape[0]
    if n < 2:
        raise UserError("Similarity needs at least two nodes, but the embedding has one row.")
    most = min(max(ks), n - 1)
    index = _sparse_neighbors(x, most) if rows.is_sparse(x) else knn(x, x, most, diagonal="drop").index
    same = classes[index] == classes.unsqueeze(1)  # [n, most], nearest first
    return {f"sim@{k}": float(same[:, : min(k, n - 1)].double().mean()) for k in ks}


def _sparse_neighbors(x: Tensor, k: int) -> Tensor:
    """As ``ops.knn`` with ``diagonal="drop"``, by sparse products: [n, k]."""
    table = csr_to_scipy(unit_rows(x))
    columns = table.T.tocsr()
    n = x.shape[0]
    block = max(1, SPARSE_BLOCK_BYTES // (4 * n))
    index = torch.empty(n, k, dtype=torch.int64)
    for start in range(0, n, block):
        part = slice(start, min(start + block, n))
        cosine = torch.from_numpy((table[part] @ columns).toarray())
        cosine.diagonal(start).fill_(-torch.inf)
        index[part] = cosine.topk(k, dim=1).indices
    return index.to(x.device)
