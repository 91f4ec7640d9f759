"""The embedding to evaluate: one [n, d] matrix, dense or CSR, and the few products that the scores need.

A CSR matrix (raw bag-of-words features, for example) is multiplied by SciPy on the CPU: SciPy supports sparse-sparse
products on every build of PyTorch, and no dense [n, d] copy is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy, csr_to_scipy, no_csr_warnings
from afgrl.errors import UserError
from afgrl.ops.sparse.layout import csr_is_smaller
from afgrl.ops.storage import row_blocks

BLOCK_BYTES = 64 << 20  # memory for one block of a product


def check_inputs(embedding: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return the embedding as a finite float tensor, dense or CSR, and the labels as classes 0…c-1 on its device."""
    x = _as_tensor(embedding)
    if x.ndim != 2 or 0 in x.shape:
        raise UserError(f"An embedding must have the shape [nodes, width], but its shape is {tuple(x.shape)}.")
    values = x.values() if is_sparse(x) else x
    # In blocks of rows: isfinite takes more than twice the memory of its argument.
    n_invalid = sum(int((~torch.isfinite(values[rows])).sum()) for rows in row_blocks(len(values), values.device))
    if n_invalid:
        raise UserError(f"The embedding contains {n_invalid} value(s) that are NaN or infinite.")
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.shape != (x.shape[0],):
        raise UserError(f"The embedding has {x.shape[0]} rows, but the labels have the shape {labels.shape}.")
    if labels.dtype.kind in "if" and not labels.min() >= 0:  # written this way, NaN fails too
        raise UserError(f"Labels must be 0 or more, but one is {labels.min()}; leave out unlabeled nodes.")
    classes = np.unique(labels, return_inverse=True)[1]
    return x, torch.from_numpy(classes).to(x.device, torch.int64)


def is_sparse(x: Tensor) -> bool:
    return x.layout == torch.sparse_csr


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """The rows ``index`` as a dense tensor [*index.shape, d]."""
    if not is_sparse(x):
        return x[index]
    rows = csr_to_scipy(x)[index.flatten().cpu().numpy()].toarray()
    return torch.from_numpy(rows).to(x.device).view(*index.shape, x.shape[1])


def select_rows(x: Tensor, rows: np.ndarray) -> Tensor:
    """The rows with these numbers, dense or CSR as ``x`` is; ``x`` itself if they are as many as it has."""
    if len(rows) == x.shape[0]:
        return x
    return csr_from_scipy(csr_to_scipy(x)[rows]) if is_sparse(x) else x[torch.from_numpy(rows).to(x.device)]


def gram_matrix(x: Tensor, index: Tensor) -> Tensor:
    """The inner products of the rows ``index`` [m]: [m, m] float64."""
    if not is_sparse(x):
        rows = x[index].double()
        return rows @ rows.T
    sparse_rows = csr_to_scipy(x)[index.cpu().numpy()].astype(np.float64)
    return torch.from_numpy((sparse_rows @ sparse_rows.T).toarray()).to(x.device)


def weighted_row_sums(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Sums of the rows ``index`` [m] with each column of ``weights`` [m, q] float64: [d, q] float64."""
    if not is_sparse(x):
        return x[index].double().T @ weights
    sparse_rows = csr_to_scipy(x)[index.cpu().numpy()].astype(np.float64)
    return torch.from_numpy(sparse_rows.T @ weights.cpu().numpy()).to(x.device)


def blockwise_product(x: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """``x @ weight`` in blocks of rows: pairs of the row range and its product [b, q]."""
    n, width = x.shape[0], weight.shape[1]
    block = max(1, BLOCK_BYTES // (weight.element_size() * width))
    multiply = _sparse_product(x, weight) if is_sparse(x) else lambda rows: x[rows] @ weight
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        yield rows, multiply(rows)


def _sparse_product(x: Tensor, weight: Tensor) -> Callable[[slice], Tensor]:
    left, right = csr_to_scipy(x), weight.cpu().numpy()
    return lambda rows: torch.from_numpy(left[rows] @ right).to(x.device)


def _as_tensor(embedding: Any) -> Tensor:
    x = csr_from_scipy(embedding) if sp.issparse(embedding) else torch.as_tensor(embedding).detach()
    if x.layout == torch.sparse_coo:
        with no_csr_warnings():
            x = x.coalesce().to_sparse_csr()
    if is_sparse(x) and not csr_is_smaller(x.values().numel(), (x.shape[0], x.shape[1])):
        x = x.to_dense()
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
