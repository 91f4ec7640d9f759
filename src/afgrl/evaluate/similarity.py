"""Sim@k: whether the nearest neighbors of a node belong to its class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate.matrix import check_inputs, is_sparse
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.sparse.rows import unit_rows

SPARSE_BLOCK_BYTES = 64 << 20  # memory for one block of similarities


def similarity_scores(embedding: Any, y: Any, ks: Sequence[int] = (5, 10)) -> dict[str, float]:
    """``sim@k``: of the k nearest other nodes by cosine, the share that has the node's class; the mean over all nodes.

    If the graph has k nodes or fewer, all other nodes are used.
    """
    x, classes = check_inputs(embedding, y)
    n = x.shape[0]
    if n < 2:
        raise UserError("Similarity needs at least two nodes, but the embedding has one row.")
    most = min(max(ks), n - 1)
    index = cosine_neighbors(x, most)
    same = classes[index] == classes.unsqueeze(1)  # [n, most], nearest first
    return {f"sim@{k}": float(same[:, : min(k, n - 1)].double().mean()) for k in ks}


def cosine_neighbors(x: Tensor, k: int) -> Tensor:
    """The ``k`` nearest other rows of each row by cosine, nearest first, for dense or CSR rows: [n, k]."""
    return _sparse_neighbors(x, k) if is_sparse(x) else nearest_neighbors(x, x, k, diagonal="drop").index


def _sparse_neighbors(x: Tensor, k: int) -> Tensor:
    """``nearest_neighbors`` with ``diagonal="drop"`` for CSR rows, by sparse products: [n, k]."""
    rows = csr_to_scipy(unit_rows(x))
    columns = rows.T.tocsr()
    n = x.shape[0]
    block = max(1, SPARSE_BLOCK_BYTES // (4 * n))
    index = torch.empty(n, k, dtype=torch.int64)
    for start in range(0, n, block):
        part = slice(start, min(start + block, n))
        cosine = torch.from_numpy((rows[part] @ columns).toarray())
        cosine.diagonal(start).fill_(-torch.inf)
        index[part] = cosine.topk(k, dim=1).indices
    return index.to(x.device)
