"""The embedding under evaluation: one [n, d] table, dense or CSR, and the few products a score needs of it.

A CSR table (raw bag-of-words features, the baseline of every comparison) goes through scipy on the CPU:
it multiplies sparse by sparse on any build of PyTorch, and no [n, d] dense copy is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from afgrl.csr import csr_from_scipy, csr_to_scipy
from afgrl.errors import UserError

BLOCK_BYTES = 64 << 20  # of products at a time
DENSE_FROM = 1 / 3  # share of non-zeros from which CSR (a value and an int64 column each) is no smaller than dense


def checked(embedding: Any, y: Any) -> tuple[Tensor, Tensor]:
    """The embedding as a finite float tensor, dense or CSR, and the labels as classes 0…c-1 on its device."""
    x = _as_tensor(embedding)
    if x.ndim != 2 or 0 in x.shape:
        raise UserError(f"An embedding is a table [nodes, width], but its shape is {tuple(x.shape)}.")
    bad = int((~torch.isfinite(x.values() if is_sparse(x) else x)).sum())
    if bad:
        raise UserError(f"The embedding holds {bad} value(s) that are NaN or infinite.")
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.shape != (x.shape[0],):
        raise UserError(f"The embedding has {x.shape[0]} rows, but the labels' shape is {labels.shape}.")
    if labels.dtype.kind in "if" and not labels.min() >= 0:  # this way round NaN fails too
        raise UserError(f"Labels are 0 or more, but there is a {labels.min()}; leave unlabeled nodes out.")
    classes = np.unique(labels, return_inverse=True)[1]
    return x, torch.from_numpy(classes).to(x.device, torch.int64)


def is_sparse(x: Tensor) -> bool:
    return x.layout == torch.sparse_csr


def take(x: Tensor, index: Tensor) -> Tensor:
    """The rows ``index`` as a dense tensor, [*index.shape, d]."""
    if not is_sparse(x):
        return x[index]
    rows = csr_to_scipy(x)[index.flatten().cpu().numpy()].toarray()
    return torch.from_numpy(rows).to(x.device).view(*index.shape, x.shape[1])


def gram(x: Tensor, index: Tensor) -> Tensor:
    """The inner products of the rows ``index``, [m, m] float64."""
    if not is_sparse(x):
        rows = x[index].double()
        return rows @ rows.T
    sparse_rows = csr_to_scipy(x)[index.cpu().numpy()].astype(np.float64)
    return torch.from_numpy((sparse_rows @ sparse_rows.T).toarray()).to(x.device)


def combine(x: Tensor, index: Tensor, coefficients: Tensor) -> Tensor:
    """Sums of the rows ``index`` weighted by each column of ``coefficients`` [m, q] float64: [d, q]."""
    if not is_sparse(x):
        return x[index].double().T @ coefficients
    sparse_rows = csr_to_scipy(x)[index.cpu().numpy()].astype(np.float64)
    return torch.from_numpy(sparse_rows.T @ coefficients.cpu().numpy()).to(x.device)


def products(x: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """``x @ weight`` in blocks of rows: pairs (rows, [b, q])."""
    n, width = x.shape[0], weight.shape[1]
    block = max(1, BLOCK_BYTES // (weight.element_size() * width))
    multiply = _sparse_product(x, weight) if is_sparse(x) else lambda rows: x[rows] @ weight
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        yield rows, multiply(rows)


def _sparse_product(x: Tensor, weight: Tensor) -> Callable[[slice], Tensor]:
    table, right = csr_to_scipy(x), weight.cpu().numpy()
    return lambda rows: torch.from_numpy(table[rows] @ right).to(x.device)


def _as_tensor(embedding: Any) -> Tensor:
    x = csr_from_scipy(embedding) if sp.issparse(embedding) else torch.as_tensor(embedding).detach()
    if x.layout == torch.sparse_coo:
        x = x.coalesce().to_sparse_csr()
    if is_sparse(x) and x.values().numel() >= DENSE_FROM * x.numel():
        x = x.to_dense()
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
