"""Sim@k: whether the nearest neighbors of a node belong to its class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from afgrl.csr import csr_to_scipy
from afgrl.errors import UserError
from afgrl.evaluate.matrix import check_inputs, is_sparse
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.knn.blocks import nearest_in_blocks
from afgrl.ops.sparse.rows import unit_rows

BLOCK_KEYS = 1 << 16  # of a million keys, in blocks instead of all at once: .47 of the time on a CPU
SPARSE_BLOCK_BYTES = 64 << 20  # memory for one block of similarities


def similarity_scores(
    embedding: Any, y: Any, ks: Sequence[int] = (5, 10), *, queries: np.ndarray | None = None
) -> dict[str, float]:
    """``sim@k``: of the k nearest other nodes by cosine, the share that has the node's class; the mean over all nodes,
    or over the rows ``queries``.

    If the graph has k nodes or fewer, all other nodes are used.
    """
    x, classes = check_inputs(embedding, y)
    n = x.shape[0]
    if n < 2:
        raise UserError("Similarity needs at least two nodes, but the embedding has one row.")
    most = min(max(ks), n - 1)
    index = cosine_neighbors(x, most) if queries is None else _neighbors_of(x, queries, most)
    own = classes if queries is None else classes[torch.from_numpy(queries).to(x.device)]
    same = classes[index] == own.unsqueeze(1)  # [rows, most], nearest first
    return {f"sim@{k}": float(same[:, : min(k, n - 1)].double().mean()) for k in ks}


def cosine_neighbors(x: Tensor, k: int) -> Tensor:
    """The ``k`` nearest other rows of each row by cosine, nearest first, for dense or CSR rows: [n, k]."""
    if is_sparse(x):
        return _sparse_neighbors(x, np.arange(x.shape[0]), k)
    return nearest_neighbors(x, x, k, diagonal="drop").index


def _neighbors_of(x: Tensor, queries: np.ndarray, k: int) -> Tensor:
    """The same for some of the rows: [len(queries), k]."""
    if is_sparse(x):
        return _sparse_neighbors(x, queries, k)
    rows = torch.from_numpy(queries).to(x.device)
    found = nearest_in_blocks(x[rows], x.split(BLOCK_KEYS), k + 1).index
    # Without the row itself, or without the last one if equal rows are before it.
    other = found != rows.unsqueeze(1)
    other[:, k] &= ~other[:, :k].all(1)
    return found[other].view(-1, k)


def _sparse_neighbors(x: Tensor, queries: np.ndarray, k: int) -> Tensor:
    """The ``k`` nearest other rows of the rows ``queries``, for CSR rows, by sparse products: [len(queries), k]."""
    rows = csr_to_scipy(unit_rows(x))
    columns = rows.T.tocsr()
    block = max(1, SPARSE_BLOCK_BYTES // (4 * x.shape[0]))
    index = torch.empty(len(queries), k, dtype=torch.int64)
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        cosine = torch.from_numpy((rows[part] @ columns).toarray())
        cosine[torch.arange(len(part)), torch.from_numpy(part)] = -torch.inf
        index[start : start + block] = cosine.topk(k, dim=1).indices
    return index.to(x.device)
