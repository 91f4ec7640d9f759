"""Sparse tables as CSR tensors, and as scipy has them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@contextlib.contextmanager
def quiet_sparse() -> Iterator[None]:
    """Without the notices, once a process, that CSR is in beta and that its invariants are not checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        yield


def csr(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor, without PyTorch's notices about them."""
    with quiet_sparse():
        return torch.sparse_csr_tensor(crow, col, values, size=size, check_invariants=False)


def csr_from_scipy(matrix: Any) -> Tensor:
    """A float32 CSR tensor from any scipy sparse matrix, duplicates summed and columns sorted."""
    matrix = sp.csr_array(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # what is sorted would be the user's own
        matrix.sum_duplicates()
    crow, col = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr(crow, col, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)


def csr_to_scipy(matrix: Tensor) -> sp.csr_array:
    """The scipy twin of a CSR tensor; it shares the memory."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=(matrix.shape[0], matrix.shape[1]))
