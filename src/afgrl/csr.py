"""CSR tensors: construction without PyTorch's warnings, and conversion from and to SciPy."""

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
def no_csr_warnings() -> Iterator[None]:
    """Suppresses PyTorch's warnings that CSR support is in beta and that invariants are not checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        yield


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor, without PyTorch's warnings; the arguments are not checked."""
    with no_csr_warnings():
        return torch.sparse_csr_tensor(crow, col, values, size=size, check_invariants=False)


def csr_from_scipy(matrix: Any) -> Tensor:
    """A float32 CSR tensor from any SciPy sparse matrix, with duplicates summed and columns sorted."""
    matrix = sp.csr_array(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the caller's matrix stays as it is
        matrix.sum_duplicates()
    crow, col = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr_tensor(crow, col, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)


def csr_to_scipy(matrix: Tensor) -> sp.csr_array:
    """A CSR tensor as a SciPy matrix that shares its memory (a copy if the tensor is on a GPU)."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=(matrix.shape[0], matrix.shape[1]))
